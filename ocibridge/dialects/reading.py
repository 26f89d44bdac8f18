# SPDX-License-Identifier: Apache-2.0
"""Reading an artifact in whatever dialect it is, and what all of them have in common."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import FormatError
from ..layers import Encoding, StoredLayer, without_prefix
from ..model import FileEntry, ModelInfo, Role, StoredModel
from ..oci import Descriptor, Digest, Index, Manifest, parse_document
from ..oci.manifest import ANNOTATION_TITLE
from ..paths import check_collisions, check_path, show
from ..settings import DEFAULT_LIMITS, Limits
from . import annotations as keys
from .base import ManifestDialect, StoredArtifact
from .registry import dialect_of

_SHOWN = 5
"""Manifests of an index that a message names."""


def parse_manifest(data: bytes, owner: str, limits: Limits = DEFAULT_LIMITS) -> Manifest:
    """Parse a manifest and refuse what is no model.

    Raises:
        FormatError: it is malformed, or the manifest of something else.
    """
    manifest = parse_document(Manifest, data, owner, limits.manifest)
    if not is_model(manifest.artifact_type, manifest.config.media_type):
        kind = manifest.artifact_type or manifest.config.media_type
        raise FormatError(f"{owner} is not a model artifact but {show(kind)}", hint=_other(owner))
    return manifest


def is_model(artifact_type: str | None, config_type: str | None) -> bool:
    """Return whether a manifest with these types is in one of the dialects."""
    return dialect_of(artifact_type, config_type) is not None


def choose_manifest(index: Index, owner: str) -> Descriptor:
    """The model in an index, by artifact type.

    Raises:
        FormatError: there is none, or more than one.
    """
    found = [each for each in index.manifests if is_model(each.artifact_type, None)]
    if len(found) > 1:
        raise FormatError(
            f"{owner} is an index with {len(found)} model artifacts in it, not one",
            hint=f"name one by its digest: {', '.join(each.digest for each in found[:_SHOWN])}",
        )
    if not found:
        platforms = [
            f"{each.platform.get('os')}/{each.platform.get('architecture')}"
            for each in index.manifests
            if each.platform
        ]
        kind = f"an image for {', '.join(map(show, platforms[:_SHOWN]))}" if platforms else "an index"
        raise FormatError(f"{owner} is {kind}, and no model artifact", hint=_other(owner))
    return found[0]


def _other(owner: str) -> str:
    """The next step for what is no model."""
    return f"give the tag of a model; 'ocibridge inspect --raw {owner}' shows what this is"


def read_artifact(manifest: Manifest, config: bytes, owner: str, limits: Limits = DEFAULT_LIMITS) -> StoredArtifact:
    """Interpret a manifest and its config.

    Args:
        manifest: From `parse_manifest`.
        config: Config object, verified.
        owner: Description of the source for messages.
        limits: See `ocibridge.settings.Limits`.

    Raises:
        FormatError: a layer is of no known type, names no file, or has an unsafe or doubled path.
    """
    dialect = dialect_of(manifest.artifact_type, manifest.config.media_type)
    if dialect is None:
        raise FormatError(f"{owner} is not a model artifact", hint="give the tag of a model")
    facts = dialect.read_config(manifest, config, owner, limits)
    diff_ids: list[Digest | None] = list(facts.diff_ids)
    if len(diff_ids) != len(manifest.layers):
        diff_ids = [None] * len(manifest.layers)
    prefix = keys.parse_prefix((manifest.annotations or {}).get(keys.PREFIX), owner)
    layers = []
    for number, (descriptor, diff_id) in enumerate(zip(manifest.layers, diff_ids, strict=True), 1):
        where = f"{owner}, layer {number}"
        layers.append(_inside(prefix, _layer(dialect, descriptor, where), where)._replace(diff_id=diff_id))
    model = _model(manifest, facts.info, layers, owner)
    return StoredArtifact(dialect.name, manifest, facts.config, tuple(layers), model)


def _inside(prefix: str, layer: StoredLayer, owner: str) -> StoredLayer:
    """The layer with the paths that its files have in the model."""
    if not prefix:
        return layer
    files = tuple(each._replace(path=without_prefix(each.path, prefix, owner)) for each in layer.files)
    return layer._replace(files=files, prefix=prefix)


def _model(manifest: Manifest, info: ModelInfo, layers: Sequence[StoredLayer], owner: str) -> StoredModel:
    annotations = manifest.annotations or {}
    links = keys.parse_symlinks(annotations.get(keys.SYMLINKS), owner)
    files = [
        file._replace(symlink=links.pop(file.path)) if file.path in links else file
        for layer in layers
        for file in layer.files
    ]
    check_collisions((file.path for file in files), owner)
    complete = all(layer.files and all(file.size is not None for file in layer.files) for layer in layers)
    if complete and links:
        raise FormatError(f"{owner}: the symlink {show(next(iter(links)))} is none of its files")
    files += [FileEntry(path, Role.DOC, symlink=target) for path, target in links.items()]
    prefix = len(keys.OURS)
    reserved = (keys.FORMAT, keys.IDENTITY, keys.SYMLINKS, keys.INFO, keys.PREFIX)
    return StoredModel(
        format=annotations.get(keys.FORMAT),
        files=tuple(files),
        complete=complete,
        identity=annotations.get(keys.IDENTITY),
        info=info,
        origin={
            key[prefix:]: value
            for key, value in annotations.items()
            if key.startswith(keys.OURS) and key not in reserved
        },
    )


def _layer(dialect: ManifestDialect, descriptor: Descriptor, owner: str) -> StoredLayer:
    annotations = descriptor.annotations or {}
    role, encoding = dialect.read_layer(descriptor, owner)
    path = keys.file_path(annotations, owner)
    listed = annotations.get(keys.FILES)
    if encoding is Encoding.RAW:
        if path is None and (title := annotations.get(ANNOTATION_TITLE)) is not None:
            path = check_path(title, owner)
        if path is None:
            raise FormatError(
                f"{owner} is a raw file without a name (no annotation org.cnai.model.filepath)",
                hint="publish it again with a tool that writes the annotation",
            )
        sha256 = descriptor.digest.removeprefix("sha256:")
        return StoredLayer(descriptor, encoding, role, (FileEntry(path, role, descriptor.size, sha256),))
    if listed is not None:
        return StoredLayer(descriptor, encoding, role, keys.parse_listing(listed, role, owner))
    return StoredLayer(descriptor, encoding, role)
