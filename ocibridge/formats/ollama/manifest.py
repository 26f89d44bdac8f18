# SPDX-License-Identifier: Apache-2.0
"""Ollama manifests in both generations, and the config object.

The manifests that Ollama writes follow docker's schema 2: a config and layers. Those of seed 004 have only layers, one
of which is the config, and say more in the parameters of the media types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from ...errors import FormatError
from ...oci import MEDIA_TYPE_DOCKER_MANIFEST, Descriptor, Document, canonical_json, parse_document, parse_json
from ...oci import parse_digest as check_digest
from ...paths import show
from .mediatype import parse_media_type

MEDIA_TYPE_CONFIG = "application/vnd.docker.container.image.v1+json"
WEIGHTS = ("model", "adapter", "projector", "draft", "tensor")
"""Kinds of layer that hold weights."""


class OllamaLayer(Document):
    """One row of a manifest: `digest` and `size` (bytes) of a blob, and what it is.

    Attributes:
        from_: The model or the local path that the layer was made from.
        name: The name of a tensor, or the path of a file.
    """

    media_type: str = ""
    digest: str
    size: Annotated[int, Field(ge=0, lt=1 << 63)]
    from_: Annotated[str | None, Field(alias="from")] = None
    name: str | None = None


class OllamaManifest(Document):
    """A manifest; everything but `layers` is missing in the form of seed 004."""

    schema_version: int | None = None
    media_type: str | None = None
    config: OllamaLayer | None = None
    layers: list[OllamaLayer]


class OllamaConfig(Document):
    """The config object (Ollama, types/model/config.go), in the order of its Go type."""

    model_config = ConfigDict(alias_generator=None, protected_namespaces=())

    model_format: str = ""
    model_family: str = ""
    model_families: list[str] | None = None
    model_type: str = ""
    file_type: str = ""
    renderer: str | None = None
    parser: str | None = None
    requires: str | None = None
    remote_host: str | None = None
    remote_model: str | None = None
    capabilities: list[str] | None = None
    context_length: int | None = None
    embedding_length: int | None = None
    base_name: str | None = None
    draft: dict[str, Any] | None = None
    architecture: str = ""
    os: str = ""


@dataclass(frozen=True, slots=True)
class OllamaBlob:
    """One layer, or the config.

    Attributes:
        index: Place among the layers, from 0; None for a config.
        kind: The media type after `application/vnd.ollama.image.`; the whole of it where it is another.
        params: Parameters of the media type.
        name: The field `name`, else the parameter.
        descriptor: Digest and size of the blob, and the media type as written.
        from_: See `OllamaLayer`.
    """

    index: int | None
    kind: str
    params: Mapping[str, str]
    name: str | None
    descriptor: Descriptor
    from_: str | None

    @property
    def sha256(self) -> str:
        """Hex sha256 of the blob."""
        return self.descriptor.digest.removeprefix("sha256:")


@dataclass(frozen=True, slots=True)
class ParsedManifest:
    """A manifest that has been checked.

    Attributes:
        config: The config, wherever it stands.
        layers: The other layers, in their order.
        docker: Whether this is docker's schema 2, which registries take as it is.
    """

    config: OllamaBlob | None
    layers: tuple[OllamaBlob, ...]
    docker: bool

    @property
    def parts(self) -> tuple[OllamaBlob, ...]:
        """The config and the layers."""
        return (self.config, *self.layers) if self.config else self.layers


def parse_ollama_manifest(data: bytes, owner: str, limit: int) -> ParsedManifest:
    """Parse a manifest of either generation.

    Args:
        data: Its bytes.
        owner: Description of the source for messages.
        limit: Largest size accepted, in bytes.

    Raises:
        LimitError: it is larger.
        FormatError: it is malformed, has more than one config, or contradicts itself.
    """
    where = f"the Ollama manifest of {owner}"
    document = parse_document(OllamaManifest, data, where, limit)
    _refuse_lookalikes(parse_json(data, where, limit), where)
    parts = [_part(layer, index, f"{where}, layer {index}") for index, layer in enumerate(document.layers)]
    configs = [part for part in parts if part.kind == "config"]
    if document.config and document.config.digest:
        configs.insert(0, _part(document.config, None, f"{where}, config"))
    if len(configs) > 1:
        raise FormatError(f"{where} has {len(configs)} configs, and no rule says which one counts")
    sizes: dict[str, int] = {}
    for part in (*configs, *parts):
        blob = part.descriptor
        if sizes.setdefault(blob.digest, blob.size) != blob.size:
            raise FormatError(f"{where} gives two sizes for the blob {blob.digest}")
    docker = document.schema_version == 2 and document.media_type == MEDIA_TYPE_DOCKER_MANIFEST
    return ParsedManifest(
        config=configs[0] if configs else None,
        layers=tuple(part for part in parts if part.kind != "config"),
        docker=docker and bool(configs) and configs[0].index is None,
    )


def parse_ollama_config(data: bytes, owner: str, limit: int) -> OllamaConfig:
    """Parse the config object of a manifest of the first generation.

    Raises:
        LimitError: it is larger than `limit` bytes.
        FormatError: it is malformed.
    """
    return parse_document(OllamaConfig, data, f"the config of {owner}", limit)


def strip_from(data: bytes, owner: str, limit: int) -> bytes:
    """The manifest without the `from` fields of its layers; the same bytes where there are none.

    What is left is written as Ollama does: compact, with a newline at the end.

    Raises:
        LimitError: it is larger than `limit` bytes.
        FormatError: it is malformed.
    """
    parse_ollama_manifest(data, owner, limit)
    document = parse_json(data, f"the Ollama manifest of {owner}", limit)
    rows = [*document["layers"], document.get("config") or {}]
    if not any("from" in row for row in rows):
        return data
    for row in rows:
        row.pop("from", None)
    return go_json(document, f"the Ollama manifest of {owner}")


def go_json(document: Any, owner: str) -> bytes:
    """`document` as Ollama writes manifests and configs: `canonical_json` and a newline.

    Raises:
        FormatError: it has text that is no valid Unicode.
    """
    try:
        return canonical_json(document) + b"\n"
    except ValueError:
        raise FormatError(f"{owner} has text or numbers that JSON cannot hold") from None


def _part(layer: OllamaLayer, index: int | None, owner: str) -> OllamaBlob:
    kind, params = parse_media_type(layer.media_type, owner) if layer.media_type else ("", {})
    given = params.get("name")
    if given is not None and layer.name not in (None, "", given):
        raise FormatError(f"{owner} has two names, {show(given)} and {show(str(layer.name))}")
    digest = check_digest(layer.digest, owner)
    descriptor = Descriptor(media_type=layer.media_type, digest=digest, size=layer.size)
    return OllamaBlob(
        index, kind if index is not None else "config", params, layer.name or given, descriptor, layer.from_
    )


_KEYS = frozenset({"schemaversion", "mediatype", "config", "layers", "digest", "size", "from", "name"})
_SPELLED = frozenset({"schemaVersion", "mediaType"}) | _KEYS - {"schemaversion", "mediatype"}


def _refuse_lookalikes(document: dict[str, Any], owner: str) -> None:
    """Refuse keys such as `Layers`: Go reads them as `layers`, so that Ollama would see another model than we do."""
    for row in (document, document.get("config") or {}, *document["layers"]):
        for key in row:
            if key.casefold() in _KEYS and key not in _SPELLED:
                raise FormatError(f"{owner} has the key {show(key)}, which tools read differently")
