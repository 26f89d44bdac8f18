# SPDX-License-Identifier: Apache-2.0
"""Predict the files that a pod sees of an artifact that it mounts as an image volume."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

from ..dialects import annotations as keys
from ..errors import FormatError, NotFound, human_size
from ..layers import Encoding
from ..model import Role
from ..oci import Descriptor, Manifest
from ..oci.manifest import ANNOTATION_TITLE
from ..paths import show
from .documents import Documents, ManifestOrIndex
from .entries import LayerEntry
from .options import CRIO
from .overlay import Overlay, parents
from .reports import MountedFile, Prediction, UnreadLayer
from .runtimes import Runtime, View, artifact_view, view

_SHOWN = 3


def predict(documents: Documents, top: ManifestOrIndex, runtime: Runtime, platform: str, read: bool) -> Prediction:
    """Predict the files that a runtime mounts.

    Args:
        documents: The repository of the artifact.
        top: The manifest or index that the reference names.
        runtime: The container runtime.
        platform: Platform of the node, `os/architecture`.
        read: Read and verify every layer. Else the listings of our annotations are trusted, and only the tar headers of
            other layers are read.
    """
    seen = view(runtime, documents, top, platform)
    outcome = _Outcome(seen)
    if seen.mounted_as == "image":
        outcome = _image(documents, top, runtime, seen, read)
    if runtime.name == CRIO and outcome.no_image and seen.found is not None:
        outcome = _Outcome(artifact_view(runtime, top, seen.found, outcome.reason))
    if outcome.view.mounted_as == "artifact":
        outcome = _artifact(documents, outcome.view)
    found = outcome.view.found
    return Prediction(
        runtime="cri-o" if runtime.name == CRIO else "containerd",
        version=str(runtime),
        image_volumes=runtime.image_volumes,
        platform=platform,
        verdict=outcome.verdict,
        reason=outcome.reason,
        manifest=found.descriptor.digest if found else None,
        mounted_as=outcome.view.mounted_as if outcome.verdict != "refused" else None,
        files=outcome.files,
        unread=outcome.unread,
        complete=outcome.complete,
        missing=outcome.missing,
        conflicts=outcome.conflicts,
        hazards=outcome.hazards,
    )


@dataclass
class _Outcome:
    """Fields of a `Prediction`, filled in step by step.

    Attributes:
        no_image: True if a layer cannot be unpacked as that of an image; CRI-O then tries the manifest as an artifact.
    """

    view: View
    verdict: Literal["mounts", "empty", "wrong", "refused"] = "refused"
    reason: str = ""
    files: list[MountedFile] = field(default_factory=list)
    unread: list[UnreadLayer] = field(default_factory=list)
    complete: bool | None = None
    missing: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    hazards: list[str] = field(default_factory=list)
    no_image: bool = False

    def __post_init__(self) -> None:
        self.reason = self.reason or self.view.refused or ""


def _image(documents: Documents, top: ManifestOrIndex, runtime: Runtime, seen: View, read: bool) -> _Outcome:
    if not seen.parts:
        return _Outcome(seen, "empty", f"none of its layers is one that it unpacks, {_ignored(seen.ignored)}")
    listed = {} if read else _listings(documents, top, seen.found)
    outcome, overlay = _Outcome(seen), Overlay()
    for number, part in enumerate(seen.parts, 1):
        layer = part.descriptor
        entries: Sequence[LayerEntry] | None = listed.get(layer.digest)
        if entries is None:
            try:
                found = documents.contents(layer, whole=read)
            except NotFound:
                return _Outcome(seen, "refused", f"layer {number} ({layer.digest}) is not there")
            if not found.archive:
                reason = f"layer {number} ({layer.media_type}) is no tar archive"
                return _Outcome(seen, "refused", reason, no_image=True)
            if None not in (part.diff_id, found.diff_id) and part.diff_id != found.diff_id:
                reason = f"layer {number} has another diff id than the config says (wrong diff id)"
                return _Outcome(seen, "refused", reason, no_image=True)
            if found.entries is None:
                outcome.unread.append(UnreadLayer(digest=layer.digest, size=layer.size, reason=found.unread or ""))
            entries = found.entries or ()
        overlay.add(number, layer.digest, entries)
    outcome.hazards, outcome.conflicts = overlay.hazards, overlay.conflicts
    outcome.files = [
        MountedFile(
            path=path,
            size=node.entry.size,
            sha256=node.entry.sha256,
            symlink=node.entry.link if node.entry.kind == "link" else None,
        )
        for path, node in sorted(overlay.nodes.items())
    ]
    for path in _links(documents, top, seen.found):
        if path not in overlay.nodes:
            overlay.warn(f"the model has a symbolic link {show(path)}, which its layers do not have")
    return _judged(outcome, _expected(documents, top, seen.found))


def _artifact(documents: Documents, seen: View) -> _Outcome:
    outcome = _Outcome(seen)
    if not seen.parts:
        outcome.verdict = "empty"
        outcome.reason = (
            f"layers of an artifact are mounted as files, and none has a name, {_ignored(seen.ignored)}; "
            "not even the folder is there"
        )
        return outcome
    archives: list[str] = []
    named: dict[str, Descriptor] = {}
    for part in seen.parts:
        name, layer = part.name or "", part.descriptor
        if ".." in name.split("/"):
            outcome.hazards.append(f"the name {show(name)} points out of the mount")
        name = _inside(name)
        if name in named and named[name].digest != layer.digest:
            outcome.conflicts.append(name)
        named[name] = layer
        if ".tar" in layer.media_type and documents.encoding(layer) is not Encoding.RAW:
            archives.append(name)
    outcome.files = [
        MountedFile(path=name, size=layer.size, sha256=layer.digest.removeprefix("sha256:"))
        for name, layer in sorted(named.items())
    ]
    if archives:
        outcome.verdict = "wrong"
        outcome.reason = (
            f"layers of an artifact are mounted as files and not unpacked: {_names(archives)} "
            f"{'is a tar archive' if len(archives) == 1 else 'are tar archives'} there"
        )
        outcome.complete = False
        return outcome
    assert seen.found is not None
    return _judged(outcome, _expected(documents, seen.found, seen.found))


def _inside(name: str) -> str:
    """The path of a file below the mount, for the name of a layer; CRI-O lets none lead out of it."""
    return posixpath.normpath(f"/{name}").lstrip("/")


def _judged(outcome: _Outcome, expected: Mapping[str, _Listed]) -> _Outcome:
    """The verdict on a tree that is known as far as it goes."""
    seen = outcome.view
    there = {each.path: each for each in outcome.files}
    folders = {parent for path in there for parent in parents(path)}
    known = not outcome.unread
    if known:
        outcome.missing = [
            path
            for path, listed in sorted(expected.items())
            if not (listed.same(there[path]) if path in there else path in folders and listed.size is None)
        ]
    if expected and known:
        outcome.complete = not outcome.missing and not outcome.conflicts and not seen.ignored
    if outcome.conflicts:
        outcome.verdict = "wrong"
        outcome.reason = f"two layers write {_names(outcome.conflicts)} with different bytes, and the later one counts"
    elif outcome.missing:
        outcome.verdict = "wrong"
        outcome.reason = f"{_names(outcome.missing)} would not be there, or not whole"
    elif not there and known:
        outcome.verdict, outcome.reason = "empty", "its layers leave no file"
    elif seen.ignored:
        outcome.verdict, outcome.reason = "wrong", f"a part of it is left out, {_ignored(seen.ignored)}"
    else:
        outcome.verdict = "mounts"
        what = "its layers are unpacked" if seen.mounted_as == "image" else "its layers are mounted as files"
        unread = f", {len(outcome.unread)} of which were not looked into" if outcome.unread else ""
        outcome.reason = f"{what}: {_count(outcome.files)}{unread}"
    return outcome


def _count(files: Sequence[MountedFile]) -> str:
    total = human_size(sum(each.size for each in files))
    return f"{len(files)} {'file' if len(files) == 1 else 'files'}, {total}"


def _ignored(layers: Sequence[Descriptor]) -> str:
    types = sorted({each.media_type for each in layers})
    if not types:
        return "as there are none"
    return f"and what it does not know ({_names(types)}) is ignored without an error"


def _names(names: Iterable[str]) -> str:
    found = [show(each) for each in names]
    rest = len(found) - _SHOWN
    return ", ".join(found[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _sources(documents: Documents, top: ManifestOrIndex, found: ManifestOrIndex | None) -> list[Manifest]:
    """The manifests that may list the files of an image: its own, and that of its subject."""
    manifests = [found.manifest] if found and found.manifest else []
    for each in (top, found):
        subject = each.subject if each else None
        if subject is None:
            continue
        try:
            manifest = documents.load(subject.digest).manifest
        except (NotFound, FormatError):
            continue
        manifests += [manifest] if manifest else []
    return manifests


def _listings(
    documents: Documents, top: ManifestOrIndex, found: ManifestOrIndex | None
) -> dict[str, tuple[LayerEntry, ...]]:
    """The entries that our annotations list, by digest of the layer."""
    listings: dict[str, tuple[LayerEntry, ...]] = {}
    for manifest in _sources(documents, top, found):
        for layer in manifest.layers:
            files = _listed(layer)
            if files is not None:
                listings.setdefault(layer.digest, files)
    return listings


def _listed(layer: Descriptor) -> tuple[LayerEntry, ...] | None:
    value = (layer.annotations or {}).get(keys.FILES)
    if value is None:
        return None
    try:
        files = keys.parse_listing(value, Role.WEIGHT, layer.digest)
    except FormatError:
        return None  # an annotation of that name from another tool
    return tuple(LayerEntry(each.path, size=each.size or 0, sha256=each.sha256) for each in files)


@dataclass(frozen=True, slots=True)
class _Listed:
    """Size and sha256 of a file, if the manifest lists them."""

    size: int | None
    sha256: str | None = None

    def same(self, file: MountedFile) -> bool:
        return self.size in (None, file.size) and (None in (self.sha256, file.sha256) or self.sha256 == file.sha256)


def _expected(documents: Documents, top: ManifestOrIndex, found: ManifestOrIndex | None) -> dict[str, _Listed]:
    """Files that the manifests list, by path."""
    expected: dict[str, _Listed] = {}
    for manifest in _sources(documents, top, found):
        for layer in manifest.layers:
            annotations = layer.annotations or {}
            listed = _listed(layer)
            if listed is not None:
                expected |= {each.path: _Listed(each.size, each.sha256) for each in listed}
                continue
            packed = ".tar" in layer.media_type
            name = next((annotations[key] for key in _NAMES if key in annotations), None)
            if packed and name is not None:
                metadata = next((annotations[key] for key in _METADATA if key in annotations), None)
                expected[name] = _Listed(keys.file_size(metadata))
            elif not packed and (name := name or annotations.get(ANNOTATION_TITLE)):
                expected[_inside(name)] = _Listed(layer.size, layer.digest.removeprefix("sha256:"))
    return expected


_NAMES = tuple(f"{prefix}filepath" for prefix in keys.SPECIFIED)
_METADATA = tuple(f"{prefix}file.metadata+json" for prefix in keys.SPECIFIED)


def _links(documents: Documents, top: ManifestOrIndex, found: ManifestOrIndex | None) -> list[str]:
    """Paths of the symbolic links that our annotations list."""
    links: set[str] = set()
    for manifest in _sources(documents, top, found):
        annotations = manifest.annotations or {}
        with suppress(FormatError):
            prefix = keys.parse_prefix(annotations.get(keys.PREFIX), "the manifest")
            links |= {prefix + path for path in keys.parse_symlinks(annotations.get(keys.SYMLINKS), "the manifest")}
    return sorted(links)
