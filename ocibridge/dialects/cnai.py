# SPDX-License-Identifier: Apache-2.0
"""The CNAI dialect: a model as `application/vnd.cnai.model.*` (seed 001, the model format specification)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from ..errors import LimitError
from ..layers import Draft, Encoding, LayerDigests, Sealed
from ..model import Model
from ..oci import MEDIA_TYPE_MANIFEST, Descriptor, Manifest, canonical_json
from ..oci import manifest as oci
from ..settings import DEFAULT_LIMITS, Limits
from . import annotations as keys
from .config import config_of, rfc3339
from .packing import Compress, Layers, Packed, pack

NAMESPACE = "cnai"


@dataclass(frozen=True, slots=True)
class DraftOptions:
    """How a model becomes an artifact.

    Attributes:
        layers: See `Layers`.
        compress: See `Compress`; only for tar layers.
        annotations: Manifest annotations of the user; they win over ours.
        created: Creation time to record; none is recorded without it, so that digests do not depend on the day.
        limits: See `ocibridge.settings.Limits`.
    """

    layers: Layers = Layers.TAR
    compress: Compress = Compress.NONE
    annotations: Mapping[str, str] = field(default_factory=dict)
    created: datetime | None = None
    limits: Limits = DEFAULT_LIMITS


def draft(model: Model, options: DraftOptions) -> Draft:
    """Plan the artifact of a model; no file is read.

    Raises:
        FormatError: the model cannot be expressed (see `pack`).
    """
    packed = pack(model.files, options.layers, options.compress)

    def seal(digests: Sequence[LayerDigests]) -> Sealed:
        return _seal(model, options, packed, digests)

    return Draft(tuple(each.layer for each in packed), seal)


def layer_media_type(packed: Packed, layers: Layers) -> str:
    """The media type of a layer (seed 001, "layers"; `.v1.raw` as released from v0.0.3 on)."""
    encoding = packed.layer.encoding
    suffix = f".{encoding.value}"
    if encoding is Encoding.RAW and layers is Layers.RAW:
        suffix = ""
    return f"application/vnd.{NAMESPACE}.model.{packed.role.value}.v1{suffix}"


def _seal(model: Model, options: DraftOptions, packed: Sequence[Packed], digests: Sequence[LayerDigests]) -> Sealed:
    info = replace(model.info, created_at=options.created) if options.created else model.info
    config = config_of(info, [each.diff_id for each in digests]).to_json()
    config_descriptor = Descriptor.of(config, f"application/vnd.{NAMESPACE}.model.config.v1+json")
    for listed in (True, False):
        layers = [
            Descriptor(
                media_type=layer_media_type(each, options.layers),
                digest=found.digest,
                size=found.size,
                annotations=_layer_annotations(each, found, listed),
            )
            for each, found in zip(packed, digests, strict=True)
        ]
        manifest = Manifest(
            artifact_type=f"application/vnd.{NAMESPACE}.model.manifest.v1+json",
            config=config_descriptor,
            layers=layers,
            annotations=_manifest_annotations(model, options) or None,
        ).to_json()
        if len(manifest) <= options.limits.manifest:
            return Sealed(manifest, MEDIA_TYPE_MANIFEST, config, config_descriptor, tuple(layers))
    raise LimitError(
        f"a manifest of {len(packed)} layers has {len(manifest)} bytes, registries take {options.limits.manifest}",
        hint="use --layers tar, which lets small files share layers",
    )


def _layer_annotations(packed: Packed, digests: LayerDigests, listed: bool) -> dict[str, str]:
    files = packed.layer.files
    found = {}
    if len(files) == 1:
        file = files[0]
        metadata = keys.FileMetadata(name=file.path.rpartition("/")[2], size=file.size)
        found[oci.ANNOTATION_TITLE] = file.path
        found[f"org.{NAMESPACE}.model.filepath"] = file.path
        found[f"org.{NAMESPACE}.model.file.metadata+json"] = metadata.to_json().decode()
        found |= {keys.OURS + key: value for key, value in file.origin.items()}
    if any(file.guessed for file in files):
        found[f"org.{NAMESPACE}.model.file.mediatype.untested"] = "true"
    if listed and packed.layer.encoding is not Encoding.RAW:
        found[keys.FILES] = keys.listing(packed.layer, digests)
    return dict(sorted(found.items()))


def _manifest_annotations(model: Model, options: DraftOptions) -> dict[str, str]:
    info = model.info
    found = {
        keys.FORMAT: model.format,
        keys.IDENTITY: model.identity,
        oci.ANNOTATION_TITLE: info.title or info.name,
        oci.ANNOTATION_DESCRIPTION: info.description,
        oci.ANNOTATION_LICENSES: " AND ".join(info.licenses),
        oci.ANNOTATION_SOURCE: info.source_url,
        oci.ANNOTATION_URL: info.doc_url,
        oci.ANNOTATION_VERSION: info.version,
        oci.ANNOTATION_CREATED: rfc3339(options.created) if options.created else None,
    }
    symlinks = {file.path: file.symlink for file in model.files if file.symlink}
    if symlinks:
        found[keys.SYMLINKS] = canonical_json(dict(sorted(symlinks.items()))).decode()
    found |= {keys.OURS + key: value for key, value in model.origin.items()}
    found |= options.annotations
    return {key: value for key, value in sorted(found.items()) if value}
