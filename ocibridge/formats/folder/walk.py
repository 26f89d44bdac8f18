# SPDX-License-Identifier: Apache-2.0
"""List the files of a folder; symbolic links are followed if they stay inside."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from ...errors import FormatError, LimitError, reading
from ...io.content import Stamp, file_stamp
from ...io.marker import is_own_name
from ...paths import check_collisions, check_path, show
from .. import symlinks
from .globs import parents
from .ignore import IGNORE_FILE

_EXAMPLES = 3

LeavesOut = Callable[[str, bool], "str | None"]
"""Called with a path and whether it is a folder; returns why it is left out, such as `ignored`, or None."""

_Folder = tuple[str, str, tuple[str, ...]]
"""Path, place, and the real places of the folder and of all that it was reached through, to see circles."""


class Found(NamedTuple):
    """One file.

    Attributes:
        real: Where its bytes are.
        size: Length in bytes.
        stamp: See `ocibridge.io.content.file_stamp`; None where a listing does not tell files apart.
        symlink: Target as written, where it is a symbolic link that leads to another file that was found.
    """

    real: str
    size: int
    stamp: Stamp | None
    symlink: str | None = None


class FolderListing(NamedTuple):
    """Contents of a folder.

    Attributes:
        files: By path, in the order of the UTF-8 bytes of the paths.
        left_out: Why, by path.
        warnings: What is not as it was in the folder, one sentence each.
    """

    files: Mapping[str, Found]
    left_out: Mapping[str, str]
    warnings: tuple[str, ...]


def walk(root: Path, leaves_out: LeavesOut, entries: int, *, blobs: Path | None = None) -> FolderListing:
    """List the files of a folder; none is opened.

    A link to a file that is listed itself stays a link. Any other link whose target is inside the folder counts as a
    copy: one to a folder, to a file that is left out, or with an absolute or crooked path.

    Args:
        root: The folder.
        leaves_out: See `LeavesOut`; of a link to a folder, it decides as of a folder.
        entries: Files and folders that are accepted.
        blobs: A folder outside, files of which links may lead to: they are stored as files.

    Raises:
        SourceError: something cannot be read.
        FormatError: a name is unsafe or collides, a link leaves the folder, leads nowhere or runs in a circle, or there
            is something that is neither a file nor a folder.
        LimitError: there are too many files and folders.
    """
    return _Walk(root, leaves_out, entries, blobs).listing()


class _Walk:
    def __init__(self, root: Path, leaves_out: LeavesOut, entries: int, blobs: Path | None) -> None:
        self._owner = str(root)
        self._leaves_out = leaves_out
        self._blobs = blobs and blobs.resolve()
        self._left = self._entries = entries
        with reading(root):
            self._root = os.path.realpath(root, strict=True)
        self._files: dict[str, Found] = {}
        self._targets: dict[str, str] = {}  # text of every link to a file
        self._folders: list[str] = []
        self._linked: list[str] = []
        self._left_out: dict[str, str] = {}

    def listing(self) -> FolderListing:
        waiting: list[_Folder] = [("", self._root, (self._root,))]
        while waiting:
            waiting += self._folder(*waiting.pop())
        files = {path: self._files[path] for path in sorted(self._files, key=str.encode)}
        files.update({path: self._settled(path, text) for path, text in self._targets.items()})
        check_collisions(files, self._owner)
        links = {path: found.symlink for path, found in files.items() if found.symlink is not None}
        symlinks.resolve(links, files.keys() - links.keys(), self._owner)
        return FolderListing(files, self._left_out, tuple(self._warnings(files)))

    def _folder(self, inner: str, place: str, above: tuple[str, ...]) -> Iterator[_Folder]:
        """Take the files of one folder, and give the folders in it."""
        with reading(place), os.scandir(place) as found:
            entries = list(found)
        for entry in entries:
            path = f"{inner}/{entry.name}" if inner else entry.name
            info = _status(entry)
            if is_own_name(entry.name, stat.S_ISDIR(info.st_mode)):
                continue
            reason = self._leaves_out(path, stat.S_ISDIR(info.st_mode))
            if reason:
                self._left_out[path] = reason
                continue
            check_path(path, self._owner)
            self._left -= 1
            if self._left < 0:
                raise LimitError(
                    f"{self._owner} has more than the {self._entries} files and folders accepted",
                    hint="check that it is the folder you meant, or ignore a part of it in .ocibridgeignore",
                )
            real = f"{above[-1]}{os.sep}{entry.name}"
            link = stat.S_ISLNK(info.st_mode)
            if link:
                real = self._follow(path, entry.path)
                with reading(entry.path):
                    info = os.stat(real)  # noqa: PTH116
            if stat.S_ISDIR(info.st_mode):
                if link:
                    if real in above:
                        raise self._refuse(path, "leads to a folder that it is in itself", "remove the link")
                    self._linked.append(path)
                self._folders.append(path)
                yield path, entry.path, (*above, real)
            elif stat.S_ISREG(info.st_mode):
                size = info.st_size
                self._files[path] = Found(real, size, file_stamp(info, 0, size) if info.st_ino else None)
                if link and self._inside(real):
                    self._targets[path] = os.readlink(entry.path).replace(os.sep, "/")  # noqa: PTH115
            else:
                raise FormatError(
                    f"{self._owner}: {show(path)} is neither a file nor a folder",
                    hint="remove it, or name it in .ocibridgeignore",
                )

    def _follow(self, path: str, place: str) -> str:
        """The real place that a link leads to."""
        try:
            real = os.path.realpath(place, strict=True)
        except OSError:
            raise self._refuse(
                path,
                f"leads to {show(os.readlink(place))}, which cannot be reached",  # noqa: PTH115
                "remove the link, or put the file where it leads to",
            ) from None
        linked = self._blobs is not None and Path(real).is_relative_to(self._blobs)
        if not (linked or self._inside(real)):
            where = " into the cache of huggingface_hub" if f"{os.sep}blobs{os.sep}" in real else ""
            raise self._refuse(
                path,
                f"leads out of the folder{where}, and its target would not travel along",
                f"copy the folder with its files by `cp -rL {self._owner} COPY`, and give the copy",
            )
        return real

    def _inside(self, real: str) -> bool:
        return Path(real).is_relative_to(self._root)

    def _refuse(self, path: str, reason: str, hint: str) -> FormatError:
        return FormatError(f"{self._owner}: the symbolic link {show(path)} {reason}", hint=hint)

    def _settled(self, path: str, text: str) -> Found:
        """The file at `path`, as a link only if what it says (`text`) leads to the same file in the listing."""
        found = self._files[path]
        target = _plain_target(path, text)
        if target is None or target not in self._files or self._files[target].real != found.real:
            return found
        return found._replace(symlink=text)

    def _warnings(self, files: Mapping[str, Found]) -> Iterator[str]:
        for reason in dict.fromkeys(self._left_out.values()):
            paths = [path for path, why in self._left_out.items() if why == reason and path != IGNORE_FILE]
            if paths:
                yield f"{_counted(paths, 'file or folder', 'files or folders')} {reason}"
        copies = [path for path in self._targets if files[path].symlink is None]
        if copies:
            yield f"{_counted(copies, 'symbolic link', 'symbolic links')} stored as a copy of the file"
        if self._linked:
            yield f"{_counted(self._linked, 'symbolic link', 'symbolic links')} stored as a copy of the folder"
        holding = {parent for folder in {path.rpartition("/")[0] for path in files} for parent in parents(f"{folder}/")}
        empty = [path for path in self._folders if path not in holding]
        if empty:
            yield f"{_counted(empty, 'folder', 'folders')} not stored, being empty"


def _status(entry: os.DirEntry[str]) -> os.stat_result:
    try:
        return entry.stat(follow_symlinks=False)
    except OSError:
        with reading(entry.path):
            raise


def _plain_target(path: str, text: str) -> str | None:
    """The path that the link `path` leads to, if its text needs no file system to tell (`symlinks.resolve`)."""
    folder = path.split("/")[:-1]
    parts = text.split("/")
    while folder and parts[:1] == [".."]:
        folder.pop()
        parts.pop(0)
    if text.startswith("/") or ".." in parts:
        return None
    return "/".join([*folder, *(part for part in parts if part not in ("", "."))])


def _counted(paths: list[str], one: str, many: str) -> str:
    """`2 files are` with the names of the first three."""
    names = ", ".join(map(show, sorted(paths)[:_EXAMPLES])) + (", ..." if len(paths) > _EXAMPLES else "")
    return f"{len(paths)} {one if len(paths) == 1 else many} ({names}) {'is' if len(paths) == 1 else 'are'}"
