# SPDX-License-Identifier: Apache-2.0
"""Records of what ocibridge has written: the file `.ocibridge` in a folder, an extended attribute of a single file.

A record is no proof of content; it tells what was written by an earlier run, and whether anybody has changed it since
(size and modification time, as git and make tell). What is not recorded counts as somebody else's.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import DestinationError, reading

MARKER = ".ocibridge"
"""Name of the record in the root of a folder: JSON lines, the first of which says where the folder came from."""
_LONGEST = 64 * 1024
"""Bytes that are read of the first line of a record."""
_ATTRIBUTE = "user.ocibridge"
_VERSION = 1
_PART = re.compile(r"\..*ocibridge-\w+\.part")
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


def is_own_name(name: str, folder: bool) -> bool:
    """Return whether a name is that of a record or of unfinished work, which are never part of a model.

    Args:
        name: The last part of a path.
        folder: Whether it is a folder.
    """
    if not name.startswith("."):
        return False
    return name.endswith(MARKER) if folder else name == MARKER or _PART.fullmatch(name) is not None


class Row(NamedTuple):
    """A row of the record of a folder, about one path; a folder that was empty has neither.

    Attributes:
        stamp: Size in bytes and modification time in nanoseconds of a file.
        symlink: Target of a symbolic link.
    """

    stamp: tuple[int, int] | None
    symlink: str | None


class Record:
    """The files that earlier runs have written into a folder, as its record says.

    Args:
        folder: The folder; one without a record has nothing that was written by ocibridge.
        wanted: Paths that will be asked for; None takes all.

    Raises:
        DestinationError: there is a `.ocibridge` that is no record.
        SourceError: it cannot be read.
    """

    def __init__(self, folder: Path, wanted: Collection[str] | None = None) -> None:
        self._folder = folder
        self._rows: dict[str, tuple[Row, ...]] = {}
        for fields in read_rows(folder):
            path = fields["path"]
            if wanted is None or path in wanted:
                self._rows[path] = (*self._rows.get(path, ()), _row(fields))

    def unchanged(self, path: str, status: os.stat_result) -> bool:
        """Return whether a file or link was written by ocibridge, and is as it was.

        Args:
            path: Its path inside the folder.
            status: What lstat says of it now.
        """
        rows = self._rows.get(path, ())
        if stat.S_ISREG(status.st_mode):
            return any(each.stamp == (status.st_size, status.st_mtime_ns) for each in rows)
        if stat.S_ISLNK(status.st_mode):
            return any(each.symlink == os.readlink(self._folder / path) for each in rows)  # noqa: PTH115
        return False

    def folders(self) -> set[str]:
        """The folders that were written, and those that files were written into, each with `/` at its end."""
        found: set[str] = set()
        for path in self._rows:
            end = path.rfind("/")
            while end > 0 and path[: end + 1] not in found:
                found.add(path[: end + 1])
                end = path.rfind("/", 0, end)
        return found


def recorded_reference(folder: Path) -> str | None:
    """The reference that a folder was pulled from, as its record says, if it has one."""
    with suppress(OSError), open(folder / MARKER, "rb") as file:
        found = _parsed(file.readline(_LONGEST)).get("reference")
        return found if isinstance(found, str) else None
    return None


def read_rows(folder: Path) -> Iterator[dict[str, Any]]:
    """The lines of the record of a folder, but for the first; what a killed process has left torn is passed over.

    Raises:
        DestinationError: there is a `.ocibridge` that is no record.
        SourceError: it cannot be read.
    """
    place = folder / MARKER
    with reading(place):
        if not os.path.lexists(place):
            return
        if not stat.S_ISREG(place.lstat().st_mode):
            raise _no_record(place)
        with open(place, "rb") as file:
            if _parsed(file.readline()).get("ocibridge") != _VERSION:
                raise _no_record(place)
            for line in file:
                fields = _parsed(line)
                if isinstance(fields.get("path"), str):
                    yield fields


def _no_record(place: Path) -> DestinationError:
    return DestinationError(
        f"{place} is in the way: ocibridge keeps its own record of the folder under this name, and this is none",
        hint="rename it, or choose another name",
    )


def _parsed(line: bytes) -> dict[str, Any]:
    with suppress(ValueError, RecursionError):
        found = json.loads(line)
        if isinstance(found, dict):
            return found
    return {}


def _row(fields: Mapping[str, Any]) -> Row:
    size, time, symlink = fields.get("size"), fields.get("mtime_ns"), fields.get("symlink")
    stamp = (size, time) if isinstance(size, int) and isinstance(time, int) else None
    return Row(stamp, symlink if isinstance(symlink, str) else None)


def row_of(folder: Path, path: str, sha256: str | None) -> dict[str, object]:
    """The line about a file or link in `folder`.

    Args:
        folder: Where it is now.
        path: Its path, there and in the record.
        sha256: Hex sha256 of a file, where it is known.
    """
    status = os.lstat(f"{folder}/{path}")
    if stat.S_ISLNK(status.st_mode):
        return {"path": path, "symlink": os.readlink(f"{folder}/{path}")}  # noqa: PTH115
    known = {"sha256": sha256} if sha256 else {}
    return {"path": path, "size": status.st_size, "mtime_ns": status.st_mtime_ns, **known}


def lines_of(header: Mapping[str, object], rows: Iterable[Mapping[str, object]]) -> Iterator[bytes]:
    """The lines of a record."""
    yield _line({"ocibridge": _VERSION, **header})
    yield from map(_line, rows)


def add_rows(folder: Path, header: Mapping[str, object], rows: Iterable[Mapping[str, object]]) -> None:
    """Add lines to the record of a folder, which is made where there is none.

    Raises:
        OSError: it cannot be written.
    """
    with open(os.open(folder / MARKER, _CREATE, 0o666), "ab") as file:
        # The line break ends what a killed process has left torn.
        file.writelines(lines_of(header, rows) if not file.tell() else (b"\n", *map(_line, rows)))


def _line(fields: Mapping[str, object]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def foreign_files(folder: Path, most: int = 3) -> tuple[list[str], int]:
    """Find what in a folder was not written by ocibridge, or was changed since.

    Args:
        folder: The folder.
        most: Paths to give.

    Returns:
        The first paths, and the number of all.
    """
    record = Record(folder)
    folders = record.folders()

    def is_ours(path: str, entry: os.DirEntry[str]) -> bool:
        if entry.is_dir(follow_symlinks=False):
            return f"{path}/" in folders
        return path == MARKER or record.unchanged(path, entry.stat(follow_symlinks=False))

    found: list[str] = []
    count = 0
    for path, entry in walk(folder, lambda path: f"{path}/" in folders):
        if not is_ours(path, entry):
            count += 1
            found += [path] if count <= most else []
    return found, count


def walk(folder: Path, enter: Callable[[str], bool] = lambda _: True) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Everything in a folder and below, with its path; no link is followed.

    Args:
        folder: The folder.
        enter: Called with the path of a folder; returns whether to look into it.
    """
    waiting = [""]
    while waiting:
        inner = waiting.pop()
        with reading(folder / inner), os.scandir(folder / inner) as entries:
            for entry in sorted(entries, key=lambda each: each.name):
                path = f"{inner}{entry.name}"
                yield path, entry
                if entry.is_dir(follow_symlinks=False) and enter(path):
                    waiting.append(f"{path}/")


def mark_file(path: Path, record: Mapping[str, object]) -> None:
    """Note on a file that ocibridge has written it, where the file system has extended attributes.

    Args:
        path: The file, all of it written.
        record: What it is.
    """
    if hasattr(os, "setxattr"):
        with suppress(OSError):
            status = path.stat()
            about = {"ocibridge": _VERSION, **record, "size": status.st_size, "mtime_ns": status.st_mtime_ns}
            os.setxattr(path, _ATTRIBUTE, json.dumps(about).encode(), follow_symlinks=False)


def file_record(path: Path) -> dict[str, Any] | None:
    """The notes of `mark_file`, if the file is as it was then; else None."""
    if hasattr(os, "getxattr"):
        with suppress(OSError):
            found = _parsed(os.getxattr(path, _ATTRIBUTE, follow_symlinks=False))
            status = path.lstat()
            stamp = (found.get("size"), found.get("mtime_ns"))
            if found.get("ocibridge") == _VERSION and stamp == (status.st_size, status.st_mtime_ns):
                return found
    return None
