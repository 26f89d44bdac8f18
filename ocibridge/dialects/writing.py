# SPDX-License-Identifier: Apache-2.0
"""Writing a manifest: a plan of it from a model, and an artifact translated into another dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from ..errors import LimitError, UsageError
from ..layers import BuiltManifest, Encoding, LayerDigests, ManifestPlan
from ..model import FileEntry, Model, ModelFile, ModelInfo
from ..oci import MEDIA_TYPE_MANIFEST, Descriptor, Manifest, canonical_json
from ..oci import manifest as oci
from ..paths import show
from ..settings import DEFAULT_LIMITS, MAX_LAYERS, Limits
from . import annotations as keys
from .base import FinishedLayer, ManifestDialect, StoredArtifact
from .choices import Compress, Layers
from .config import rfc3339
from .packing import Packed, pack, under
from .registry import dialect_named
from .titles import titles


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Options for building an artifact of a model.

    Attributes:
        layers: See `Layers`.
        compress: See `Compress`; only for tar layers.
        annotations: Manifest annotations of the user, about what the model says nothing of.
        created: Creation time to record; none is recorded without it, so that digests do not depend on the day.
        dialect: The dialect; None is `cnai`.
        prefix: Folder that the files are put into inside the layers, with a slash after it; the model does not have it.
        max_layers: See `pack`.
        limits: See `ocibridge.settings.Limits`.
    """

    layers: Layers = Layers.TAR
    compress: Compress = Compress.NONE
    annotations: Mapping[str, str] = field(default_factory=dict)
    created: datetime | None = None
    dialect: ManifestDialect | None = None
    prefix: str = ""
    max_layers: int = MAX_LAYERS
    limits: Limits = DEFAULT_LIMITS


class _About(NamedTuple):
    """Fields of a manifest about the whole model."""

    info: ModelInfo
    format: str | None
    identity: str | None
    prefix: str
    symlinks: Mapping[str, str]
    origin: Mapping[str, str]
    annotations: Mapping[str, str]
    created: datetime | None


def plan_manifest(model: Model, options: PlanOptions) -> ManifestPlan:
    """Plan the artifact of a model; no file is read.

    Raises:
        UsageError: an annotation is given that the model's own metadata gives as well.
        FormatError: the model cannot be expressed (see `pack`).
        UsageError: the dialect has no name for these layers, or there cannot be as few as wanted.
    """
    dialect = options.dialect or dialect_named("cnai")
    if options.layers is Layers.RAW:
        dialect = dialect.with_bare_raw()
    packed = pack(under(model.files, options.prefix), options.layers, options.compress, options.max_layers)
    about = _About(
        info=replace(model.info, created_at=options.created) if options.created else model.info,
        format=model.format,
        identity=model.identity,
        prefix=options.prefix,
        symlinks={file.path: file.symlink for file in model.files if file.symlink},
        origin=model.origin,
        annotations=options.annotations,
        created=options.created,
    )
    _refuse_doubled(options.annotations, _manifest_annotations(about._replace(annotations={}), dialect))
    return _plan(about, packed, dialect, options.limits)


def _refuse_doubled(given: Mapping[str, str], written: Mapping[str, str]) -> None:
    for key, value in given.items():
        if written.get(key, value) != value:
            raise UsageError(
                f"the annotation {show(key)} is already {show(written[key])}, from the metadata of the model",
                hint="leave it out, or correct the metadata",
            )


def repack(
    artifact: StoredArtifact, files: Sequence[ModelFile], dialect: ManifestDialect, limits: Limits = DEFAULT_LIMITS
) -> ManifestPlan:
    """The same model in tar layers, under the names of another dialect: what `plan_manifest` would make of its source.

    Args:
        artifact: The artifact.
        files: Its files.
        dialect: The dialect.
        limits: See `ocibridge.settings.Limits`.
    """
    about = _about(artifact)
    return _plan(about, pack(under(files, about.prefix), Layers.TAR, Compress.NONE), dialect, limits)


def _plan(about: _About, packed: Sequence[Packed], dialect: ManifestDialect, limits: Limits) -> ManifestPlan:
    dialect.check([each.layer.encoding for each in packed])

    def build(digests: Sequence[LayerDigests]) -> BuiltManifest:
        layers = [_finished(each, found) for each, found in zip(packed, digests, strict=True)]
        return build_manifest(about, layers, dialect, limits)

    return ManifestPlan(tuple(each.layer for each in packed), build)


def _finished(packed: Packed, found: LayerDigests) -> FinishedLayer:
    layer = packed.layer
    named = layer.files if found.files or len(layer.files) == 1 else ()
    return FinishedLayer(
        role=packed.role,
        encoding=layer.encoding,
        digest=found.digest,
        size=found.size,
        diff_id=found.diff_id,
        files=tuple(
            FileEntry(file.path, packed.role, file.size, sha256)
            for file, sha256 in zip(named, found.files or [None] * len(named), strict=True)
        ),
        guessed=any(file.guessed for file in layer.files),
        origin=layer.files[0].origin if len(layer.files) == 1 else {},
    )


def translate(artifact: StoredArtifact, dialect: ManifestDialect, limits: Limits = DEFAULT_LIMITS) -> BuiltManifest:
    """The same layers under the names of another dialect; no layer byte changes.

    Raises:
        UsageError: the dialect has no name for a layer of the artifact.
        FormatError: the artifact does not say what the other dialect has to say.
    """
    dialect.check([each.encoding for each in artifact.layers])
    layers = [
        FinishedLayer(
            role=each.role,
            encoding=each.encoding,
            digest=each.descriptor.digest,
            size=each.descriptor.size,
            diff_id=each.diff_id or keys.plain_diff_id(each),
            files=each.members or keys.named_file(each),
            guessed=keys.guessed(each),
            origin=keys.file_origin(each),
            kept=keys.kept(each, dialect.prefix, dialect_named(artifact.dialect).prefix),
        )
        for each in artifact.layers
    ]
    return build_manifest(_about(artifact), layers, dialect, limits)


def _about(artifact: StoredArtifact) -> _About:
    annotations = artifact.manifest.annotations or {}
    model = artifact.model
    about = _About(
        info=model.info,
        format=model.format,
        identity=model.identity,
        prefix=keys.parse_prefix(annotations.get(keys.PREFIX), artifact.dialect),
        symlinks={file.path: file.symlink for file in model.files if file.symlink},
        origin=model.origin,
        annotations={},
        created=model.info.created_at if oci.ANNOTATION_CREATED in annotations else None,
    )
    ours = _manifest_annotations(about, dialect_named(artifact.dialect))
    others = {
        key: value for key, value in annotations.items() if not key.startswith(keys.OURS) and ours.get(key) != value
    }
    return about._replace(annotations=others)


def build_manifest(
    about: _About, finished: Sequence[FinishedLayer], dialect: ManifestDialect, limits: Limits
) -> BuiltManifest:
    """Write config and manifest.

    Raises:
        LimitError: the manifest would be larger than registries take.
    """
    config, config_type = dialect.config(about.info, [each.diff_id for each in finished])
    config_descriptor = Descriptor.of(config, config_type)
    raw = all(each.encoding is Encoding.RAW for each in finished)
    prefixes = dialect.filepath_prefixes if raw else (dialect.prefix,)
    named = list(zip(finished, titles(finished), strict=True))
    for listed in (True, False):
        layers = [
            dialect.layer(each, _layer_annotations(each, title, dialect, prefixes, listed)) for each, title in named
        ]
        manifest = Manifest(
            artifact_type=dialect.artifact_type,
            config=config_descriptor,
            layers=layers,
            annotations=_manifest_annotations(about, dialect) or None,
        ).to_json()
        if len(manifest) <= limits.manifest:
            return BuiltManifest(manifest, MEDIA_TYPE_MANIFEST, config, config_descriptor, tuple(layers))
    raise LimitError(
        f"a manifest of {len(finished)} layers has {len(manifest)} bytes, registries take {limits.manifest}",
        hint="push it with --layers tar, which lets small files share layers"
        if any(each.encoding is Encoding.RAW for each in finished)
        else "push it with a smaller --max-layers, so that more files share a layer",
    )


def _layer_annotations(
    layer: FinishedLayer, title: str, dialect: ManifestDialect, prefixes: Sequence[str], listed: bool
) -> dict[str, str]:
    prefix = dialect.prefix
    found = {oci.ANNOTATION_TITLE: title}
    if len(layer.files) == 1:
        file = layer.files[0]
        found |= {each + "filepath": file.path for each in prefixes}
        if file.size is not None:
            metadata = keys.FileMetadata(name=file.path.rpartition("/")[2], size=file.size)
            found[prefix + "file.metadata+json"] = metadata.to_json().decode()
        found |= {keys.OURS + key: value for key, value in layer.origin.items()}
    if layer.guessed:
        found[prefix + "file.mediatype.untested"] = "true"
    if listed and layer.encoding is not Encoding.RAW and (listing := keys.listing(layer.files)):
        found[keys.FILES] = listing
    found |= layer.kept
    return dict(sorted(found.items()))


def _manifest_annotations(about: _About, dialect: ManifestDialect) -> dict[str, str]:
    info = about.info
    found = {
        keys.FORMAT: about.format,
        keys.IDENTITY: about.identity,
        keys.PREFIX: about.prefix or None,
        oci.ANNOTATION_TITLE: info.title or info.name,
        oci.ANNOTATION_DESCRIPTION: info.description,
        oci.ANNOTATION_LICENSES: " AND ".join(info.licenses),
        oci.ANNOTATION_SOURCE: info.source_url,
        oci.ANNOTATION_URL: info.doc_url,
        oci.ANNOTATION_VERSION: info.version,
        oci.ANNOTATION_CREATED: rfc3339(about.created) if about.created else None,
        **dialect.annotations(info),
    }
    if about.symlinks:
        found[keys.SYMLINKS] = canonical_json(dict(sorted(about.symlinks.items()))).decode()
    found |= {keys.OURS + key: value for key, value in about.origin.items()}
    found |= about.annotations
    return {key: value for key, value in sorted(found.items()) if value}
