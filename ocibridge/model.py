# SPDX-License-Identifier: Apache-2.0
"""The neutral model: what every format reads into and every dialect writes from. Nothing here knows OCI."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from .io.content import Content


class Role(str, Enum):
    """The kinds of layer that the model format specification has (seed 001, "layers")."""

    WEIGHT = "weight"
    WEIGHT_CONFIG = "weight.config"
    DOC = "doc"
    CODE = "code"
    DATASET = "dataset"


class ModelFile(NamedTuple):
    """One file of a model.

    Attributes:
        path: POSIX path inside the model, already through `ocibridge.paths.check_path`.
        role: The kind of layer it belongs into.
        content: Its bytes. For a symlink, the bytes of the file that it resolves to.
        sha256: Lower-case hex sha256 of the bytes where the format promises one (checked when the bytes are read).
        symlink: Target as written in the source, where the source has a symlink here.
        guessed: True where the role is a guess that no rule of the format supports.
        origin: What the format wants to be known of this file wherever it is stored; as `Model.origin`.
    """

    path: str
    role: Role
    content: Content
    sha256: str | None = None
    symlink: str | None = None
    guessed: bool = False
    origin: Mapping[str, str] = MappingProxyType({})

    @property
    def size(self) -> int:
        """Length in bytes."""
        return self.content.size


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What is known about a model, in the words of the config schema (seed 001; `descriptor` and `config`)."""

    name: str | None = None
    title: str | None = None
    description: str | None = None
    version: str | None = None
    revision: str | None = None
    vendor: str | None = None
    family: str | None = None
    authors: tuple[str, ...] = ()
    licenses: tuple[str, ...] = ()
    doc_url: str | None = None
    source_url: str | None = None
    created_at: datetime | None = None
    architecture: str | None = None
    format: str | None = None
    param_size: str | None = None
    precision: str | None = None
    quantization: str | None = None


@dataclass(frozen=True, slots=True)
class Model:
    """A model as read from one source.

    Attributes:
        format: Name of the format that read it, such as `carton`.
        files: Its files, in the order of the source's own listing.
        identity: What a round trip keeps, such as `carton:<manifest hash>`.
        info: Metadata.
        origin: What the format needs to restore the source and the config schema does not admit; short strings under
            dotted keys such as `carton.spec_version`.
        warnings: Oddities that are legal to carry, one sentence each.
    """

    format: str
    files: tuple[ModelFile, ...]
    identity: str | None = None
    info: ModelInfo = field(default_factory=ModelInfo)
    origin: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


class FileEntry(NamedTuple):
    """What is known about one file of a stored model before its bytes have been read.

    Attributes:
        path: POSIX path inside the model, already through `ocibridge.paths.check_path`.
        role: The kind of layer it was found in.
        size: Length in bytes, if known.
        sha256: Lower-case hex sha256 of its bytes, if known.
        symlink: Target, where the source had a symlink here.
    """

    path: str
    role: Role
    size: int | None = None
    sha256: str | None = None
    symlink: str | None = None


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model as an artifact describes it, before any layer has been read.

    Attributes:
        format: Name of the format it came from, or None for an artifact of another tool.
        files: What is known of its files, in layer order.
        complete: Whether `files` names every file with its size (false where a tar layer has no listing).
        identity: Identity that the publisher recorded, if any; to be proven by whoever restores it.
        info: Metadata.
        origin: See `Model`.
    """

    format: str | None
    files: tuple[FileEntry, ...]
    complete: bool
    identity: str | None = None
    info: ModelInfo = field(default_factory=ModelInfo)
    origin: Mapping[str, str] = field(default_factory=dict)
