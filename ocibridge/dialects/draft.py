# SPDX-License-Identifier: Apache-2.0
"""The dialect of seed 003: OCI layers that a container runtime mounts, with an artifact type for each layer.

Metadata is in annotations; the config is that of an OCI image, because the seed asks that runtimes can pull it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from ..errors import FormatError
from ..layers import Encoding
from ..model import ModelInfo, Role
from ..oci import SHA256, Descriptor, Manifest, canonical_json, parse_document, parse_json
from ..settings import Limits
from . import annotations as keys
from . import config as model_config
from .base import ConfigFacts, FinishedLayer, ManifestDialect
from .config import ModelFacts, rfc3339

PREFIX = "org.cnai.model."
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
_ARTIFACT = re.compile(r"application/vnd\.(cnai|cncf)\.model\.manifest\.v1\+json")
_CONFIG = re.compile(r"application/vnd\.(cnai|cncf)\.model\.config\.v1\+json")
_KINDS = {Role.WEIGHT: "model", Role.WEIGHT_CONFIG: "config"}
_SCALE = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12, "Q": 10**15}
_TEXTS = {
    "name": "name",
    "title": "title",
    "description": "description",
    "version": "version",
    "revision": "revision",
    "vendor": "vendor",
    "family": "family",
    "doc_url": "documentation",
    "source_url": "source",
    "architecture": "architecture",
    "format": "format",
    "precision": "precision",
    "quantization": "quantization",
}


class Draft(ManifestDialect):
    """`application/vnd.cnai.model.layer.v1.tar[+gzip]` on OCI layers (seed 003, "Image Manifest Extension Properties").

    Args:
        architecture: Of the platform that the config names; a runtime of another platform may refuse the image.
    """

    name = "draft"
    namespace = "cnai"
    encodings = (Encoding.TAR, Encoding.TAR_GZIP)

    def __init__(self, architecture: str = "amd64") -> None:
        self._architecture = architecture

    def matches(self, artifact_type: str | None, config_type: str | None) -> bool:
        """Return whether it is a model whose config is none of the model specification."""
        return bool(_ARTIFACT.fullmatch(artifact_type or "") and config_type and not _CONFIG.fullmatch(config_type))

    def read_config(self, manifest: Manifest, config: bytes, owner: str, limits: Limits) -> ConfigFacts:
        """Diff ids are in the image config, metadata in the annotations of the manifest."""
        return ConfigFacts(info_of(manifest.annotations or {}), diff_ids(config))

    def config(self, info: ModelInfo, diff_ids: Sequence[str]) -> tuple[bytes, str]:
        """An OCI image config (image-spec, config.md)."""
        document = {
            "architecture": self._architecture,
            "os": "linux",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": list(diff_ids)},
        }
        return canonical_json(document), CONFIG_TYPE

    def layer(self, layer: FinishedLayer, annotations: dict[str, str]) -> Descriptor:
        """An OCI layer with the artifact type of the seed and the booleans of its layer annotation keys."""
        found = dict(annotations)
        if layer.role in _KINDS:
            found[PREFIX + _KINDS[layer.role]] = "true"
        elif layer.role is Role.DOC:
            for file in layer.files:
                stem = file.path.rpartition("/")[2].upper().split(".")[0]
                if stem in ("README", "LICENSE"):
                    found[PREFIX + stem.lower()] = "true"
        found[keys.ROLE] = layer.role.value
        return Descriptor(
            media_type=f"application/vnd.oci.image.layer.v1.{layer.encoding.value}",
            digest=layer.digest,
            size=layer.size,
            annotations=dict(sorted(found.items())),
            artifact_type=f"application/vnd.cnai.model.layer.v1.{layer.encoding.value}",
        )

    def annotations(self, info: ModelInfo) -> dict[str, str]:
        """The manifest annotation keys of the seed."""
        found = {key: getattr(info, name) for name, key in _TEXTS.items()}
        found["url"] = info.doc_url
        found["authors"] = ", ".join(info.authors)
        found["licenses"] = " AND ".join(info.licenses)
        found["created"] = rfc3339(info.created_at) if info.created_at else None
        found["param.size"] = _count(info.param_size)
        written = {PREFIX + key: value for key, value in found.items() if value}
        if info_of(written) != info:
            # Such as `8b` or an author with a comma: what the seed's keys cannot say without loss.
            written[keys.INFO] = model_config.facts_of(info).to_json().decode()
        return written


def info_of(annotations: Mapping[str, str]) -> ModelInfo:
    """The metadata in the annotations of a manifest.

    Raises:
        FormatError: the creation time is no RFC 3339 time, or our own annotation is malformed.
    """
    if keys.INFO in annotations:
        data = annotations[keys.INFO].encode()
        return model_config.info_of(parse_document(ModelFacts, data, f"the annotation {keys.INFO}", len(data)))
    found = {key.removeprefix(PREFIX): value for key, value in annotations.items() if key.startswith(PREFIX)}
    texts: dict[str, Any] = {name: found.get(key) for name, key in _TEXTS.items()}
    texts["doc_url"] = texts["doc_url"] or found.get("url")
    texts["name"] = texts["name"] or found.get("ref.name")
    return ModelInfo(
        **texts,
        authors=tuple(filter(None, found.get("authors", "").split(", "))),
        licenses=tuple(filter(None, found.get("licenses", "").split(" AND "))),
        param_size=_word(found.get("param.size")),
        created_at=_time(found.get("created")),
    )


def diff_ids(config: bytes) -> list[str]:
    """The diff ids in an OCI image config, which the seed does not ask for; none where it has none that are valid."""
    try:
        document = parse_json(config, "the config", len(config))
    except FormatError:
        return []
    rootfs = document.get("rootfs") if isinstance(document, dict) else None
    found = rootfs.get("diff_ids") if isinstance(rootfs, dict) else None
    valid = isinstance(found, list) and all(re.fullmatch(rf"sha256:{SHA256.pattern}", str(each)) for each in found)
    return list(found) if found and valid else []


def _count(param_size: str | None) -> str | None:
    """`8.1B` as the integer that the seed wants."""
    match = re.fullmatch(r"(\d{1,6})(?:\.(\d))?([KMBTQ]?)", (param_size or "").upper())
    return str((int(match[1]) * 10 + int(match[2] or 0)) * _SCALE[match[3]] // 10) if match else None


def _word(count: str | None) -> str | None:
    """The integer as a word again: the shortest that says the same, else the integer itself."""
    if not (count and count.isascii() and count.isdigit() and len(count) < 20):
        return count
    number = int(count)
    for suffix, scale in reversed(_SCALE.items()):
        tenths, rest = divmod(number * 10, scale)
        if number >= scale and not rest:
            return f"{tenths // 10}{f'.{tenths % 10}' if tenths % 10 else ''}{suffix}"
    return count


def _time(text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise FormatError(f"the creation time {text!r} of the manifest is no RFC 3339 time") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
