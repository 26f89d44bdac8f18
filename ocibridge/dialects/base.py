# SPDX-License-Identifier: Apache-2.0
"""Base class of dialects, which recognise, read and write the vocabulary of one specification."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from ..errors import FormatError, UsageError
from ..layers import Encoding, StoredLayer
from ..model import FileEntry, ModelInfo, Role, StoredModel
from ..oci import Descriptor, Digest, Manifest
from ..paths import show
from ..settings import Limits
from . import annotations as keys
from .config import ModelConfig

_COMPRESS = {Encoding.TAR: "none", Encoding.TAR_GZIP: "gzip", Encoding.TAR_ZSTD: "zstd"}
_LAYER = re.compile(
    r"application/vnd\.(?:cnai|cncf)\.model\.(?P<role>weight|weight\.config|doc|code|dataset)\.v1"
    r"(?:\.(?P<encoding>raw|tar|tar\+gzip|tar\+zstd))?"
)
_OCI_LAYER = re.compile(r"application/vnd\.oci\.image\.layer\.v1\.(?P<encoding>tar|tar\+gzip|tar\+zstd)")


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


class StoredArtifact(NamedTuple):
    """Contents of a manifest and its config.

    Attributes:
        dialect: Name of the dialect.
        manifest: The manifest.
        config: The config object of the specification; None where the dialect has none.
        layers: The layers.
        model: The model that they hold.
    """

    dialect: str
    manifest: Manifest
    config: ModelConfig | None
    layers: tuple[StoredLayer, ...]
    model: StoredModel


class ConfigFacts(NamedTuple):
    """Contents of a config object and of the annotations of its manifest.

    Attributes:
        info: Metadata.
        diff_ids: Digests of the uncompressed layers, in their order; none where it does not say.
        config: The config object of the specification, if it is one.
    """

    info: ModelInfo
    diff_ids: Sequence[Digest]
    config: ModelConfig | None = None


class ManifestDialect(ABC):
    """A dialect: the vocabulary of one specification.

    Attributes:
        name: Name of the dialect (`--dialect`).
        namespace: The part `NAMESPACE` of `application/vnd.NAMESPACE.model.…` and `org.NAMESPACE.model.…`.
        encodings: Layer encodings that it has a name for.
    """

    name: str
    namespace: str
    encodings: tuple[Encoding, ...] = tuple(Encoding)

    @property
    def prefix(self) -> str:
        """Prefix of the annotation keys of the specification."""
        return f"org.{self.namespace}.model."

    @property
    def filepath_prefixes(self) -> tuple[str, ...]:
        """Prefixes of the `filepath` annotations to write if every layer of the artifact is a raw file.

        Each single-file layer gets one `filepath` annotation per prefix; CRI-O names mounted files by it.
        """
        return (self.prefix,)

    @property
    def artifact_type(self) -> str:
        """Artifact type of the manifest."""
        return f"application/vnd.{self.namespace}.model.manifest.v1+json"

    @property
    def config_type(self) -> str:
        """Media type of the config object."""
        return f"application/vnd.{self.namespace}.model.config.v1+json"

    def with_bare_raw(self) -> ManifestDialect:
        """The same where raw weights among tar layers have a name of their own, without an encoding (seed 001)."""
        return self

    def check(self, encodings: Sequence[Encoding]) -> None:
        """Refuse encodings that the dialect has no name for.

        Raises:
            UsageError: there is one.
        """
        wrong = sorted({each.value for each in encodings if each not in self.encodings})
        if wrong:
            ways = [word for each, word in _COMPRESS.items() if each in self.encodings]
            raise UsageError(
                f"the {self.name} dialect has no name for {wrong[0]} layers",
                hint=f"use --layers tar, with --compress {' or '.join(ways)}" if ways else "use --layers raw-files",
            )

    def matches(self, artifact_type: str | None, config_type: str | None) -> bool:
        """Return whether a manifest with these types is in this dialect.

        Args:
            artifact_type: Artifact type of the manifest, or of its descriptor in an index.
            config_type: Media type of the config; None for a descriptor in an index, which does not say.
        """
        return config_type == self.config_type or (config_type is None and artifact_type == self.artifact_type)

    @abstractmethod
    def read_config(self, manifest: Manifest, config: bytes, owner: str, limits: Limits) -> ConfigFacts:
        """Read the config object of a manifest, together with the manifest's annotations.

        Raises:
            FormatError: it is malformed.
        """

    def read_layer(self, descriptor: Descriptor, owner: str) -> tuple[Role, Encoding]:
        """Role and encoding of a layer.

        Raises:
            FormatError: its media type is not known.
        """
        match = _LAYER.fullmatch(descriptor.media_type)
        if match:
            return Role(match["role"]), Encoding(match["encoding"] or "raw")
        match = _OCI_LAYER.fullmatch(descriptor.media_type)
        if match:
            return _annotated_role(descriptor.annotations or {}), Encoding(match["encoding"])
        raise FormatError(
            f"{owner} has the media type {show(descriptor.media_type)}, which no model specification knows",
            hint="read it with the tool that wrote it",
        )

    @abstractmethod
    def config(self, info: ModelInfo, diff_ids: Sequence[str]) -> tuple[bytes, str]:
        """The config object and its media type."""

    @abstractmethod
    def layer(self, layer: FinishedLayer, annotations: dict[str, str]) -> Descriptor:
        """The descriptor of a layer; `annotations` are those that all dialects write, to be added to."""

    def annotations(self, info: ModelInfo) -> dict[str, str]:
        """Annotations of the manifest with metadata, beyond those that all dialects write."""
        return {}


def _annotated_role(annotations: Mapping[str, str]) -> Role:
    """The role of an OCI layer: ours where we wrote it, else what the boolean annotations of seed 003 say."""
    own = annotations.get(keys.ROLE)
    if own in {role.value for role in Role}:
        return Role(own)

    def marked(*names: str) -> bool:
        return any(annotations.get(prefix + name) == "true" for prefix in keys.SPECIFIED for name in names)

    if marked("readme", "license"):
        return Role.DOC
    return Role.WEIGHT_CONFIG if marked("config") else Role.WEIGHT
