# SPDX-License-Identifier: Apache-2.0
"""Reading an artifact, in every spelling of the model specification that exists (seeds 001 and 003, v0.0.1 to HEAD)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ..errors import FormatError
from ..layers import Encoding, StoredLayer, without_prefix
from ..model import FileEntry, Role, StoredModel
from ..oci import Descriptor, Digest, Index, Manifest, parse_document
from ..paths import check_collisions, show
from ..settings import DEFAULT_LIMITS, Limits
from . import annotations as keys
from . import draft
from .config import ModelConfig, info_of, parse_config

_NAMESPACES = ("cnai", "cncf")
_ARTIFACT = re.compile(r"application/vnd\.(cnai|cncf)\.model\.manifest\.v1\+json")
_CONFIG = re.compile(r"application/vnd\.(cnai|cncf)\.model\.config\.v1\+json")
_LAYER = re.compile(
    r"application/vnd\.(?:cnai|cncf)\.model\.(?P<role>weight|weight\.config|doc|code|dataset)\.v1"
    r"(?:\.(?P<encoding>raw|tar|tar\+gzip|tar\+zstd))?"
)
_OCI_LAYER = re.compile(r"application/vnd\.oci\.image\.layer\.v1\.(?P<encoding>tar|tar\+gzip|tar\+zstd)")


class StoredArtifact(NamedTuple):
    """What a manifest and its config say.

    Attributes:
        dialect: `cnai`, `modelpack` (the `cncf` names) or `draft` (OCI layers).
        manifest: The manifest.
        config: The config object; None where the dialect has none.
        layers: The layers.
        model: The model that they hold.
    """

    dialect: str
    manifest: Manifest
    config: ModelConfig | None
    layers: tuple[StoredLayer, ...]
    model: StoredModel


def parse_manifest(data: bytes, owner: str, limits: Limits = DEFAULT_LIMITS) -> Manifest:
    """Parse a manifest and refuse what is no model.

    Raises:
        FormatError: it is malformed, or the manifest of something else.
    """
    manifest = parse_document(Manifest, data, owner, limits.manifest)
    if not is_model(manifest.artifact_type, manifest.config.media_type):
        kind = manifest.artifact_type or manifest.config.media_type
        raise FormatError(
            f"{owner} is not a model artifact but {show(kind)}",
            hint="give the tag of a model (artifact type application/vnd.cnai.model.manifest.v1+json)",
        )
    return manifest


def is_model(artifact_type: str | None, config_type: str | None) -> bool:
    """Whether a manifest with these types is one of ours to read."""
    return bool(_ARTIFACT.fullmatch(artifact_type or "") or _CONFIG.fullmatch(config_type or ""))


def choose_manifest(index: Index, owner: str) -> Descriptor:
    """The model in an index, by artifact type.

    Raises:
        FormatError: there is none, or more than one.
    """
    found = [each for each in index.manifests if is_model(each.artifact_type, None)]
    if len(found) != 1:
        raise FormatError(
            f"{owner} is an index with {len(found)} model artifacts in it, not one",
            hint="give the digest of the one that is meant",
        )
    return found[0]


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
    parsed = parse_config(config, f"the config of {owner}", limits.config) if _has_config(manifest) else None
    diff_ids: list[Digest | None] = list(parsed.modelfs.diff_ids if parsed else draft.diff_ids(config))
    if len(diff_ids) != len(manifest.layers):
        diff_ids = [None] * len(manifest.layers)
    prefix = keys.parse_prefix((manifest.annotations or {}).get(keys.PREFIX), owner)
    layers = []
    for number, (descriptor, diff_id) in enumerate(zip(manifest.layers, diff_ids, strict=True), 1):
        where = f"{owner}, layer {number}"
        layers.append(_inside(prefix, _layer(descriptor, where), where)._replace(diff_id=diff_id))
    model = _model(manifest, parsed, layers, owner)
    return StoredArtifact(_dialect(manifest), manifest, parsed, tuple(layers), model)


def _inside(prefix: str, layer: StoredLayer, owner: str) -> StoredLayer:
    """The layer with the paths that its files have in the model."""
    if not prefix:
        return layer
    files = tuple(each._replace(path=without_prefix(each.path, prefix, owner)) for each in layer.files)
    return layer._replace(files=files, prefix=prefix)


def _has_config(manifest: Manifest) -> bool:
    return bool(_CONFIG.fullmatch(manifest.config.media_type))


def _dialect(manifest: Manifest) -> str:
    if not _has_config(manifest):
        return "draft"
    return "modelpack" if ".cncf." in manifest.config.media_type else "cnai"


def _model(manifest: Manifest, config: ModelConfig | None, layers: Sequence[StoredLayer], owner: str) -> StoredModel:
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
        info=info_of(config) if config else draft.info_of(annotations),
        origin={
            key[prefix:]: value
            for key, value in annotations.items()
            if key.startswith(keys.OURS) and key not in reserved
        },
    )


def _layer(descriptor: Descriptor, owner: str) -> StoredLayer:
    annotations = descriptor.annotations or {}
    match = _LAYER.fullmatch(descriptor.media_type)
    if match:
        role = Role(match["role"])
        encoding = Encoding(match["encoding"] or "raw")
    elif match := _OCI_LAYER.fullmatch(descriptor.media_type):
        role = _draft_role(annotations)
        encoding = Encoding(match["encoding"])
    else:
        raise FormatError(
            f"{owner} has the media type {show(descriptor.media_type)}, which no model specification knows",
            hint="read it with the tool that wrote it",
        )
    path = keys.file_path(annotations, owner)
    listed = annotations.get(keys.FILES)
    if encoding is Encoding.RAW:
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


def _draft_role(annotations: dict[str, str]) -> Role:
    """The role of a layer of seed 003: ours where we wrote it, else what its boolean annotations say."""
    own = annotations.get(keys.ROLE)
    if own in {role.value for role in Role}:
        return Role(own)

    def marked(*names: str) -> bool:
        return any(annotations.get(f"org.{space}.model.{name}") == "true" for space in _NAMESPACES for name in names)

    if marked("readme", "license"):
        return Role.DOC
    return Role.WEIGHT_CONFIG if marked("config") else Role.WEIGHT
