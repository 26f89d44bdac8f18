# SPDX-License-Identifier: Apache-2.0
"""Stack layers as an overlay mount does (image-spec, layer.md)."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..paths import show
from .entries import LayerEntry

_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"
_META = ".wh..wh."
_MOST = 20


@dataclass(frozen=True, slots=True)
class OverlayFile:
    """A file or link in the mount.

    Attributes:
        entry: The entry of the layer, with the path in the mount.
        layer: Number of the layer, from 1.
        digest: Digest of that layer.
    """

    entry: LayerEntry
    layer: int
    digest: str


class Overlay:
    """A stack of layers.

    Attributes:
        nodes: Files and links by path, without folders.
        hazards: Sentences about unsafe or surprising entries, at most twenty.
        conflicts: Paths that two layers write with different bytes.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, OverlayFile] = {}
        self.hazards: list[str] = []
        self.conflicts: list[str] = []
        self._folders: set[str] = set()

    def add(self, number: int, digest: str, entries: Iterable[LayerEntry]) -> None:
        """Add a layer on top of the others.

        Args:
            number: Number of the layer, from 1.
            digest: Its digest.
            entries: Its entries.
        """
        own: set[str] = set()
        for entry in entries:
            path = self._place(entry, number)
            folder, _, name = path.rpartition("/")
            if name.startswith(_WHITEOUT):
                self._whiteout(folder, name, number, own)
            elif path:
                self._put(replace(entry, path=path), number, digest)
                own.add(path)

    def _place(self, entry: LayerEntry, number: int) -> str:
        path = posixpath.normpath("/" + entry.path).lstrip("/")
        if ".." in entry.path.split("/") or entry.path.startswith("/"):
            self.warn(f"layer {number}: the name {show(entry.path)} leaves the root; it becomes {show(path)}")
        return path

    def _whiteout(self, folder: str, name: str, number: int, own: set[str]) -> None:
        if name == _OPAQUE:
            gone = folder
        elif name.startswith(_META):
            return
        else:
            gone = posixpath.join(folder, name[len(_WHITEOUT) :])
        self.warn(f"layer {number}: {show(posixpath.join(folder, name))} is a whiteout, which hides {show(gone)}")
        for path in [each for each in self.nodes if _inside(each, gone) and each not in own]:
            del self.nodes[path]

    def _put(self, entry: LayerEntry, number: int, digest: str) -> None:
        path = entry.path
        for parent in parents(path):
            if parent in self.nodes:
                self._conflict(parent, number)
                del self.nodes[parent]
            self._folders.add(parent)
        if entry.kind == "folder":
            if self.nodes.pop(path, None):
                self._conflict(path, number)
            self._folders.add(path)
            return
        if path in self._folders:
            below = [each for each in self.nodes if _inside(each, path)]
            for each in below:
                del self.nodes[each]
            if below:
                self._conflict(path, number)
            self._folders.discard(path)
        self._look(entry, number)
        if entry.kind == "hardlink":
            entry = self._resolved(entry, number)
        before = self.nodes.get(path)
        if before is not None and before.digest != digest and not _equal(before.entry, entry):
            if None in (before.entry.sha256, entry.sha256) and before.entry.size == entry.size:
                self.warn(f"layers {before.layer} and {number} both write {show(path)}; the later one counts")
            else:
                self._conflict(path, number)
        self.nodes[path] = OverlayFile(entry, number, digest)

    def _resolved(self, entry: LayerEntry, number: int) -> LayerEntry:
        target = self.nodes.get(posixpath.normpath("/" + entry.link).lstrip("/"))
        if target is None:
            self.warn(f"layer {number}: {show(entry.path)} is a hard link to {show(entry.link)}, which is not there")
            return entry
        return replace(target.entry, path=entry.path)

    def _look(self, entry: LayerEntry, number: int) -> None:
        what = None
        if entry.kind == "device":
            what = "is neither a file, a folder nor a link"
        elif entry.kind == "link":
            target = entry.link if entry.link.startswith("/") else posixpath.join(*_parent(entry.path), entry.link)
            if target.startswith("/") or posixpath.normpath(target).split("/")[0] == "..":
                what = f"links to {show(entry.link)}, which is outside of the volume"
        elif entry.mode & 0o6000:
            what = "has a setuid or setgid bit"
        elif entry.kind == "file" and not entry.mode & 0o004:
            what = f"can be read by its owner only (mode {entry.mode & 0o7777:04o}), not by every user of a container"
        if what:
            self.warn(f"layer {number}: {show(entry.path)} {what}")

    def _conflict(self, path: str, number: int) -> None:
        if path not in self.conflicts:
            self.conflicts.append(path)
        self.warn(f"layer {number} replaces {show(path)} of a layer before it by something else")

    def warn(self, sentence: str) -> None:
        """Add a sentence to `hazards`."""
        if len(self.hazards) == _MOST:
            self.hazards.append("there are more of these")
        elif len(self.hazards) < _MOST and sentence not in self.hazards:
            self.hazards.append(sentence)


def _equal(one: LayerEntry, other: LayerEntry) -> bool:
    if one.kind == "link" or other.kind == "link":
        return (one.kind, one.link) == (other.kind, other.link)
    return one.sha256 is not None and one.sha256 == other.sha256


def _inside(path: str, folder: str) -> bool:
    return not folder or path == folder or path.startswith(folder + "/")


def _parent(path: str) -> tuple[str, ...]:
    folder = path.rpartition("/")[0]
    return (folder,) if folder else ()


def parents(path: str) -> list[str]:
    """The parent folders of a path, the outermost first."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]
