# SPDX-License-Identifier: Apache-2.0
"""What the dialects call things; everything else about a manifest is the same in all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from ..layers import Encoding
from ..model import FileEntry, ModelInfo, Role
from ..oci import Descriptor


class FinishedLayer(NamedTuple):
    """A layer whose blob is known.

    Attributes:
        role: The kind of layer it is.
        encoding: See `Encoding`.
        digest: Digest of the blob.
        size: Length of the blob in bytes.
        diff_id: Digest of the uncompressed tar; of the blob itself where it is raw.
        files: Its files, with size and sha256 as far as they are known.
        guessed: Whether the role of a file in it is a guess.
        origin: What the format wants to be known of its one file; see `ocibridge.model.ModelFile`.
        kept: Annotations of a layer that has been published before; they win over those that we would write.
    """

    role: Role
    encoding: Encoding
    digest: str
    size: int
    diff_id: str
    files: tuple[FileEntry, ...]
    guessed: bool = False
    origin: Mapping[str, str] = MappingProxyType({})
    kept: Mapping[str, str] = MappingProxyType({})


class ManifestDialect(ABC):
    """The names that one dialect uses.

    Attributes:
        name: Name of the dialect (`--dialect`).
        namespace: The part `NAMESPACE` of `application/vnd.NAMESPACE.model.…` and `org.NAMESPACE.model.…`.
    """

    name: str
    namespace: str

    @property
    def prefix(self) -> str:
        """What the annotation keys of the specification start with."""
        return f"org.{self.namespace}.model."

    @property
    def raw_prefixes(self) -> tuple[str, ...]:
        """What the keys of a path start with in an artifact of raw files alone, which CRI-O mounts by name."""
        return (self.prefix,)

    @property
    def artifact_type(self) -> str:
        """Artifact type of the manifest."""
        return f"application/vnd.{self.namespace}.model.manifest.v1+json"

    @abstractmethod
    def check(self, encodings: Sequence[Encoding]) -> None:
        """Refuse encodings that the dialect has no name for.

        Raises:
            UsageError: there is one.
        """

    @abstractmethod
    def config(self, info: ModelInfo, diff_ids: Sequence[str]) -> tuple[bytes, str]:
        """The config object and its media type."""

    @abstractmethod
    def layer(self, layer: FinishedLayer, annotations: dict[str, str]) -> Descriptor:
        """The descriptor of a layer; `annotations` are those that all dialects write, to be added to."""

    def annotations(self, info: ModelInfo) -> dict[str, str]:
        """Annotations of the manifest that carry metadata, beyond those that all dialects write."""
        return {}
