# SPDX-License-Identifier: Apache-2.0
"""The neutral model: formats read it, dialects write it. It is independent of OCI."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from .io.content import Content


class Role(str, Enum):
    """Kinds of layer of the model format specification (seed 001, "layers")."""

    WEIGHT = "weight"
    WEIGHT_CONFIG = "weight.config"
    DOC = "doc"
    CODE = "code"
    DATASET = "dataset"


class ModelFile(NamedTuple):
    """One file of a model.

    Attributes:
        path: POSIX path inside the model, already through `ocibridge.paths.check_path`.
        role: Its kind of layer.
        content: Its bytes. For a symlink, the bytes of the file that it resolves to.
        sha256: Lower-case hex sha256 of the bytes, if the format records it (checked when the bytes are read).
        symlink: Target of the symlink as written in the source, if it is one.
        guessed: True if no rule of the format determines the role.
        origin: Data of the format about this file, kept wherever it is stored; see `Model.origin`.
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
    """Metadata of a model, with the names of the config schema (seed 001; `descriptor` and `config`)."""

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
        identity: Identity that a round trip keeps, such as `carton:<manifest hash>`.
        info: Metadata.
        origin: Data to restore the source that the config schema cannot express; short strings under
            dotted keys such as `carton.spec_version`.
        warnings: Oddities that are legal, one sentence each.
        linked: Files that the source only names by URL, and that were not fetched; they are not in `files`. Empty
            unless `ReadOptions.linked` allows them.
        left_out: Files and folders of the source that are no part of the model, each with the reason.
    """

    format: str
    files: tuple[ModelFile, ...]
    identity: str | None = None
    info: ModelInfo = field(default_factory=ModelInfo)
    origin: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    linked: tuple[FileEntry, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)


class FileEntry(NamedTuple):
    """Entry for a file of a stored model whose bytes have not been read.

    Attributes:
        path: POSIX path inside the model, already through `ocibridge.paths.check_path`.
        role: Kind of the layer that contains it.
        size: Length in bytes, if known.
        sha256: Lower-case hex sha256 of its bytes, if known.
        symlink: Target, if it was a symlink in the source.
    """

    path: str
    role: Role
    size: int | None = None
    sha256: str | None = None
    symlink: str | None = None


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model as described by an artifact whose layers have not been read.

    Attributes:
        format: Name of the format it came from, or None for an artifact of another tool.
        files: Entries of its files, in layer order.
        complete: True if `files` has every file with its size (a tar layer may have no listing).
        identity: Identity that the publisher recorded, if any; it is verified when the model is restored.
        info: Metadata.
        origin: See `Model`.
    """

    format: str | None
    files: tuple[FileEntry, ...]
    complete: bool
    identity: str | None = None
    info: ModelInfo = field(default_factory=ModelInfo)
    origin: Mapping[str, str] = field(default_factory=dict)
