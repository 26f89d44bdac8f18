# SPDX-License-Identifier: Apache-2.0
"""Container runtimes: how each of them interprets a manifest that a pod names as an image volume.

Rules of containerd: `internal/cri/server/container_image_mount.go`, `core/unpack` and the package `images`, observed
with 1.6, 2.2 and 2.4; of CRI-O: `internal/ociartifact/store.go`, and `storage/storage_dest.go` of containers/image,
observed with CRI-O 1.36 and, for images in earlier versions, with podman 4.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..errors import FormatError, UsageError
from ..oci import MEDIA_TYPE_DOCKER_INDEX, MEDIA_TYPE_DOCKER_MANIFEST, MEDIA_TYPE_INDEX, SHA256, Descriptor, parse_json
from ..oci.manifest import ANNOTATION_TITLE
from ..paths import show
from .documents import Documents, ManifestOrIndex
from .options import CONTAINERD, CRIO, RUNTIMES

IMAGE_CONFIG = "application/vnd.oci.image.config.v1+json"
DOCKER_CONFIG = "application/vnd.docker.container.image.v1+json"

_CURRENT = {CONTAINERD: (2, 4), CRIO: (1, 36)}
_FIRST = {CONTAINERD: (2, 1), CRIO: (1, 31)}
_IGNORES_UNKNOWN = (1, 7, 8)
_ARTIFACTS = (1, 33)
_CNCF_NAMES = (1, 34)
# containers/image 5.34, of January 2025, is the first that compares diff ids.
_DIFF_IDS = (1, 33)
_LAST_PATCH = 999

# Both measured: the kernel stacks 500 folders in an overlay, containers-storage goes 128 layers below the topmost.
_MOST_LAYERS = {CONTAINERD: 500, CRIO: 129}

_OCI_LAYER = "application/vnd.oci.image.layer."
_EROFS_LAYER = "application/vnd.erofs.layer.v1"
_DOCKER_LAYER = re.compile(r"application/vnd\.docker\.image\.rootfs\.(foreign\.)?diff\.tar(\.gzip|\.zstd)?")
_DEPTH = 4


@dataclass(frozen=True, slots=True)
class Runtime:
    """A container runtime.

    Attributes:
        name: `containerd` or `cri-o`.
        version: Major, minor and patch number.
    """

    name: str
    version: tuple[int, int, int]

    def __str__(self) -> str:
        patch = "" if self.version[2] == _LAST_PATCH else f".{self.version[2]}"
        return f"{'CRI-O' if self.name == CRIO else self.name} {self.version[0]}.{self.version[1]}{patch}"

    @property
    def image_volumes(self) -> bool:
        """True if this version supports image volumes."""
        return self.version >= _FIRST[self.name]

    @property
    def first(self) -> str:
        """The first version that supports image volumes, as `X.Y`."""
        return ".".join(map(str, _FIRST[self.name]))


def parse_runtime(name: str, version: str | None = None) -> Runtime:
    """Return the runtime with a name and a version: `1.7.8`, or `2.1` for the last of that series; None is the latest.

    Raises:
        UsageError: there is no such runtime, or the version is malformed.
    """
    if name not in RUNTIMES:
        raise UsageError(f"{show(name)} is no runtime that is known", hint=f"give one of {', '.join(RUNTIMES)}")
    if version is None:
        return Runtime(name, (*_CURRENT[name], _LAST_PATCH))
    match = re.fullmatch(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?:[-+~].*)?", version)
    if not match:
        raise UsageError(f"{show(version)} is no version of {name}", hint="give two numbers, such as 2.1")
    return Runtime(name, (int(match[1]), int(match[2]), _LAST_PATCH if match[3] is None else int(match[3])))


@dataclass(frozen=True, slots=True)
class MountedLayer:
    """A layer that a runtime mounts.

    Attributes:
        descriptor: The layer.
        diff_id: Digest of its uncompressed bytes in the config, if the runtime compares it.
        name: Name of the file, if the layer is mounted as a file and not unpacked.
    """

    descriptor: Descriptor
    diff_id: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class View:
    """Interpretation of a manifest by a runtime.

    Attributes:
        found: The selected manifest; None if there is none.
        mounted_as: `image`: layers are unpacked and stacked; `artifact`: each layer is a file; None: refused.
        parts: The mounted layers, in order.
        ignored: The layers that are ignored without an error.
        refused: The reason of a refusal.
    """

    found: ManifestOrIndex | None
    mounted_as: Literal["image", "artifact"] | None = None
    parts: tuple[MountedLayer, ...] = ()
    ignored: tuple[Descriptor, ...] = ()
    refused: str | None = None


def view(runtime: Runtime, documents: Documents, found: ManifestOrIndex, platform: str) -> View:
    """Interpret a manifest or index as a runtime does on a node of `platform` (`os/architecture`)."""
    read = _containerd if runtime.name == CONTAINERD else _crio
    seen = read(runtime, documents, found, platform)
    most = _MOST_LAYERS[runtime.name]
    if seen.mounted_as == "image" and len(seen.parts) > most:
        return View(seen.found, refused=f"an overlay mount of {len(seen.parts)} layers fails, {most} are the most")
    return seen


def _containerd(runtime: Runtime, documents: Documents, top: ManifestOrIndex, platform: str) -> View:
    found = next(_manifests_for_platform(documents, top, platform), None)
    if found is None or found.manifest is None:
        return View(None, refused=f"the index has no manifest for {platform} (no match for platform in manifest)")
    layers: Sequence[Descriptor] = found.manifest.layers
    unknown = [each for each in layers if not _is_layer(each.media_type)]
    strict = runtime.version < _IGNORES_UNKNOWN
    taken = list(layers) if strict else [each for each in layers if _is_layer(each.media_type)]
    diff_ids = _diff_ids(documents.config(found))
    if diff_ids is None:
        return View(found, refused="the config is not the JSON of an image")
    if len(diff_ids) != len(taken):
        return View(
            found,
            refused=f"it takes {len(taken)} of the layers, and the config has {len(diff_ids)} diff_ids "
            "(mismatched image rootfs and manifest layers)",
        )
    kind = found.manifest.config.media_type
    if taken and runtime.image_volumes and kind not in (IMAGE_CONFIG, DOCKER_CONFIG):
        # `core/unpack` leaves layers to the handler of an image's config, which is never called for another one.
        return View(found, refused=f"it does not fetch layers below a config of the type {show(kind)} (not found)")
    if strict and unknown:
        return View(found, refused=f"it has no processor for layers of the type {show(unknown[0].media_type)}")
    if problem := _wrong_diff_ids(taken, diff_ids):
        return View(found, refused=f"{problem} (wrong diff id)")
    parts = tuple(MountedLayer(layer, diff_id) for layer, diff_id in zip(taken, diff_ids, strict=True))
    return View(found, "image", parts, tuple(unknown))


def _crio(runtime: Runtime, documents: Documents, top: ManifestOrIndex, platform: str) -> View:
    found = _crio_choice(documents, top, platform)
    if found is None or found.manifest is None:
        return View(None, refused=f"the index has no image for {platform}")
    manifest = found.manifest
    if found.descriptor.media_type == MEDIA_TYPE_DOCKER_MANIFEST:
        strange = next((each.media_type for each in manifest.layers if not _is_layer(each.media_type)), None)
        problem = strange and f"the image has layers of the type {show(strange)} (unsupported docker v2s2 media type)"
    else:
        problem = (
            None
            if manifest.config.media_type == IMAGE_CONFIG
            else f"its config is of the type {show(manifest.config.media_type)} "
            "(unsupported image-specific operation on artifact)"
        )
    layers: Sequence[Descriptor] = manifest.layers
    diff_ids: Sequence[str | None] = [None] * len(layers)
    if problem is None and runtime.version >= _DIFF_IDS:
        # No diff ids at all are let through, and what is more than the layers is never looked at.
        diff_ids = (_diff_ids(documents.config(found)) or diff_ids)[: len(layers)]
        problem = _wrong_diff_ids(layers, diff_ids)
    if problem is None:
        return View(found, "image", tuple(map(MountedLayer, layers, diff_ids)))
    return artifact_view(runtime, top, found, problem)


def _wrong_diff_ids(layers: Sequence[Descriptor], diff_ids: Sequence[str | None]) -> str | None:
    if len(diff_ids) < len(layers):
        return f"it has {len(layers)} layers, and the config has {len(diff_ids)} diff_ids"
    for number, (layer, diff_id) in enumerate(zip(layers, diff_ids, strict=True), 1):
        if diff_id is not None and layer.media_type.endswith(".tar") and layer.digest != diff_id:
            return f"layer {number} has another diff id than the config says"
    return None


def artifact_view(runtime: Runtime, top: ManifestOrIndex, found: ManifestOrIndex, problem: str) -> View:
    """Interpret a manifest as an artifact, as CRI-O does with a manifest that is no image.

    Args:
        runtime: CRI-O.
        top: The manifest or index that the reference names.
        found: The manifest selected from it.
        problem: The reason why it is no image.
    """
    assert found.manifest is not None
    if runtime.version < _ARTIFACTS:
        return View(found, refused=f"{problem}; artifacts are mounted from CRI-O 1.33")
    image = not found.manifest.artifact_type and found.manifest.config.media_type in (IMAGE_CONFIG, DOCKER_CONFIG)
    if image or top.descriptor.media_type == MEDIA_TYPE_DOCKER_INDEX:
        return View(found, refused=f"{problem}, and as it has no artifact type, it is not taken as an artifact either")
    key = "org.cncf.model.filepath" if runtime.version >= _CNCF_NAMES else "org.cnai.model.filepath"
    parts, ignored = [], []
    for layer in found.manifest.layers:
        annotations = layer.annotations or {}
        name = annotations.get(ANNOTATION_TITLE, annotations.get(key, ""))
        if name:
            parts.append(MountedLayer(layer, name=name))
        else:
            ignored.append(layer)
    return View(found, "artifact", tuple(parts), tuple(ignored))


def _is_layer(media_type: str) -> bool:
    return (
        media_type.startswith(_OCI_LAYER)
        or media_type == _EROFS_LAYER
        or _DOCKER_LAYER.fullmatch(media_type) is not None
    )


def _diff_ids(config: bytes) -> list[str] | None:
    try:
        document: Any = parse_json(config, "the config", len(config))
    except FormatError:
        return None
    if not isinstance(document, dict):
        return None
    rootfs = document.get("rootfs") or {}
    found = rootfs.get("diff_ids") or [] if isinstance(rootfs, dict) else None
    if not isinstance(found, list) or not all(re.fullmatch(rf"sha256:{SHA256.pattern}", str(each)) for each in found):
        return None
    return found


def _manifests_for_platform(
    documents: Documents, top: ManifestOrIndex, platform: str, depth: int = _DEPTH
) -> Iterator[ManifestOrIndex]:
    """Yield the manifests that suit a platform, in the order of the index.

    If `top` is a manifest, it is yielded whatever its platform is. An index entry without a platform is judged by the
    platform in its config.

    Args:
        documents: Loads the manifests, indexes and configs of the repository.
        top: The manifest or index to start from.
        platform: The wanted platform, `OS/ARCHITECTURE[/VARIANT]`.
        depth: The number of levels of nested indexes to follow; deeper indexes are skipped.
    """
    if top.index is None:
        yield top
        return
    for entry in top.index.manifests:
        if entry.platform is not None and not _fits(entry.platform, platform):
            continue
        if entry.media_type in (MEDIA_TYPE_INDEX, MEDIA_TYPE_DOCKER_INDEX):
            if depth:
                yield from _manifests_for_platform(documents, documents.load(entry.digest), platform, depth - 1)
            continue
        found = documents.load(entry.digest)
        if entry.platform is not None or _fits(documents.config_document(found), platform):
            yield found


def _crio_choice(documents: Documents, top: ManifestOrIndex, platform: str) -> ManifestOrIndex | None:
    for _ in range(_DEPTH):
        if top.index is None:
            return top
        entries = top.index.manifests
        exact = [each for each in entries if each.platform is not None and _fits(each.platform, platform)]
        chosen = next(iter(exact or [each for each in entries if each.platform is None]), None)
        if chosen is None:
            return None
        top = documents.load(chosen.digest)
    return None


def _fits(given: dict[str, Any], wanted: str) -> bool:
    system, _, rest = wanted.partition("/")
    architecture, _, variant = rest.partition("/")
    own = given.get("variant") or ""
    same = given.get("os") == system and given.get("architecture") == architecture
    # Every arm64 node is a v8, with or without the variant.
    return same and (not own or not variant or own == variant)
