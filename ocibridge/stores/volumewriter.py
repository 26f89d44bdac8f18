# SPDX-License-Identifier: Apache-2.0
"""Writing a file, or its volumes, so that another process can go on with what was left unfinished."""

from __future__ import annotations

import glob
import hashlib
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from ..errors import DestinationError, IntegrityError, LimitError, can_resume, writing
from ..io.atomic import AtomicFile
from ..io.content import Concatenation, Content, FileContent, fill
from ..io.hasher import BackgroundHasher
from ..io.locks import try_lock
from ..settings import MiB
from .volumes import LEAST_SIZE, MOST, list_path, numbered, volume_path

KEEP = MiB
"""Bytes that make an unfinished file worth keeping."""
_PART = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True, slots=True)
class Written:
    """One file that was written.

    Attributes:
        path: Where it is.
        size: Its length in bytes.
        digest: `sha256:…` of its bytes; None for a file that is not split, as that is checked by what is in it.
    """

    path: Path
    size: int
    digest: str | None


class VolumeWriter:
    """Writes a file, or its volumes, which get their names at the end, all together.

    What an earlier writer has left unfinished is `.NAME….ocibridge-pack.part`. The next one of the same file passes it
    over as far as it would write the same bytes, and can read it (`ahead`) to know what they are.

    Args:
        path: The file.
        size: Length of a volume in bytes, the last may be shorter; None writes one file.
        beside: Hashes the volumes.
        force: Whether to replace what is there.

    Attributes:
        written: Bytes so far, those among them that were passed over.
        kept: Those that were passed over.

    Raises:
        DestinationError: it cannot be written, is there already, or is being written by another process.
        LimitError: volumes of this size are too small.
    """

    def __init__(self, path: Path, size: int | None, beside: BackgroundHasher, force: bool = False) -> None:
        if size is not None and size < LEAST_SIZE:
            raise LimitError(f"a volume of {size} bytes is too small", hint=f"give {LEAST_SIZE} bytes or more")
        if re.search(r"[\r\n\\]", path.name):
            raise DestinationError(f"{path.name!r} has a line break or a backslash in it", hint="choose another name")
        self.path = path
        self.written = self.kept = 0
        self._size = size
        self._beside = beside
        self._parts: list[_Part] = []
        self._same = True
        if not force and (found := _existing(path, size is not None)):
            raise DestinationError(f"{found[0]} exists", hint="choose another name, or replace it with --force")
        # The part of the whole file is there for volumes too: its lock stands for all of them.
        self._first = _Part(path, keep=size is None)
        try:
            # The last number of the volumes that were left, one after the other.
            self._left = 0 if size is None else _count_left(path, size)
            _remove_left(path, self._left)
            self._part = self._first if size is None else self._next()
            self._found = self.ahead(sys.maxsize).size
        except BaseException:
            for part in (*self._parts, self._first):
                if part.there:
                    part.leave()
                else:
                    part.discard()
            raise

    def _next(self) -> _Part:
        number = len(self._parts) + 1
        if number > MOST:
            raise LimitError(f"{self.path} would have more than {MOST} volumes", hint="make them larger")
        self._parts.append(_Part(volume_path(self.path, number), keep=number <= self._left))
        return self._parts[-1]

    def ahead(self, most: int) -> Content:
        """The next bytes that an earlier writer has left, at most so many; whether they are right nobody knows."""
        parts: list[Content] = []
        for each in self._left_ahead():
            size = min(most, each.size)
            if size:
                parts.append(FileContent(each.path, each.offset, size))
                most -= size
            if not most:
                break
        return Concatenation(parts)

    def _left_ahead(self) -> Iterator[FileContent]:
        yield FileContent(self._part.path, self._part.size, self._part.there - self._part.size)
        if self._parts:
            for number in range(len(self._parts) + 1, self._left + 1):
                yield FileContent(_part_path(volume_path(self.path, number)))

    def write(self, data: bytes | memoryview) -> None:
        """Append `data`, which must not change before `beside` has been waited for.

        Raises:
            DestinationError: the disk is full, say.
            LimitError: there would be too many volumes.
        """
        view = memoryview(data)
        while view:
            room = len(view) if self._size is None else self._size - self._part.size
            if not room:
                self._part.finish(close=True)
                self._part = self._next()
                continue
            piece, view = view[:room], view[room:]
            same = self._part.write(piece)
            self.kept += same
            if same < len(piece):
                self._same = False
                if self._left > len(self._parts):
                    # What follows was left after other bytes than these.
                    self._left = len(self._parts)
                    _remove_left(self.path, self._left)
            if self._size is not None:
                self._beside.update(self._part.hash, piece)
            self.written += len(piece)

    def publish(self) -> list[Written]:
        """Give the volumes their names; the list of their hashes appears last.

        Raises:
            DestinationError: one cannot be written or renamed.
        """
        self._beside.wait()
        self._part.finish(close=bool(self._parts))
        parts = self._parts or [self._first]
        lines = [f"{each.hash.hexdigest()}  {each.target.name}\n" for each in self._parts]
        with writing(self.path), ExitStack() as stack:
            for part in parts:
                part.path.stat()
            # All that needs room on the disk comes before anything gets a name.
            listed = stack.enter_context(AtomicFile(list_path(self.path))) if lines else None
            if listed:
                listed.write("".join(lines).encode())
            old = set(_existing(self.path, bool(lines))) - {each.target for each in parts}
            # Without their list, volumes are not taken for a whole archive.
            if list_path(self.path) in old:
                old.remove(list_path(self.path))
                list_path(self.path).unlink()
            for part in parts:
                part.publish()
            for path in old:
                path.unlink()
            if listed:
                listed.publish()
        self.close()
        return [each.volume(hashed=bool(lines)) for each in parts]

    def worth_keeping(self, exc: BaseException) -> bool:
        """Whether another writer should go on with what is there, after this error.

        Where nothing was written yet that had not been left, a mistake in a later command does not cost it.
        """
        if isinstance(exc, IntegrityError):
            return False
        return self._found >= KEEP if self._same else self.written >= KEEP and can_resume(exc)

    def leave(self) -> None:
        """Let another writer go on."""
        for part in (*self._parts, self._first):
            part.leave()

    def close(self) -> None:
        """Remove what was not published."""
        for part in (*self._parts, self._first):
            part.discard()
        _remove_left(self.path, len(self._parts))


class _Part:
    """One volume in preparation, locked against other processes.

    Attributes:
        size: Bytes that were written, or passed over.
        there: Bytes that the file has; beyond `size`, an earlier writer has left them.
    """

    def __init__(self, target: Path, keep: bool) -> None:
        self.target = target
        self.path = _part_path(target)
        self.size = self.there = 0
        self.hash = hashlib.sha256()
        with writing(target):
            self._file = os.fdopen(os.open(self.path, _PART, 0o666), "r+b", buffering=0)
        status = os.fstat(self._file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            self._file.close()
            raise DestinationError(f"{self.path} is no file of this program", hint="remove it")
        self._mine = try_lock(self._file.fileno(), self.path)
        if not self._mine:
            self._file.close()
            raise DestinationError(f"another process is writing {target}", hint="wait for it, or name another file")
        with writing(target):
            if keep:
                self.there = os.fstat(self._file.fileno()).st_size
            else:
                self._file.truncate(0)

    def write(self, data: memoryview) -> int:
        """Append `data`; the number of its leading bytes that were there, and were passed over."""
        with writing(self.target):
            same = self._pass_over(data)
            data = data[same:]
            while data:
                count = self._file.write(data) or 0
                self.size += count
                data = data[count:]
        self.there = max(self.there, self.size)
        return same

    def _pass_over(self, data: memoryview) -> int:
        left = min(len(data), self.there - self.size)
        if not left:
            return 0
        found = memoryview(bytearray(left))
        same = left if fill(self._file, found) == left and found == data[:left] else 0
        self.size += same
        if same < len(data):
            self._file.seek(self.size)
            self._file.truncate()
            self.there = self.size
        return same

    def volume(self, hashed: bool) -> Written:
        return Written(self.target, self.size, "sha256:" + self.hash.hexdigest() if hashed else None)

    def finish(self, close: bool) -> None:
        """Push the bytes to the disk. Of many volumes, few files are open at once; the first keeps the lock."""
        with writing(self.target):
            self._file.truncate(self.size)
            os.fsync(self._file.fileno())
            if close or os.name == "nt":  # which renames no open file
                self._file.close()

    def publish(self) -> None:
        self.path.replace(self.target)
        self._mine = False
        self._file.close()

    def leave(self) -> None:
        self._mine = False
        self._file.close()

    def discard(self) -> None:
        if self._mine:
            with suppress(OSError):
                self.path.unlink()
        self._file.close()


def _part_path(target: Path) -> Path:
    return target.with_name(f".{target.name}.ocibridge-pack.part")


def _count_left(path: Path, size: int) -> int:
    """How many volumes of `size` bytes, the last of them perhaps shorter, were left one after the other."""
    for number in range(1, MOST + 1):
        try:
            there = _part_path(volume_path(path, number)).lstat().st_size
        except OSError:
            return number - 1
        if there != size:
            return number if there < size else number - 1
    return MOST


def _remove_left(path: Path, keep: int) -> None:
    """Remove the parts that were left of volumes beyond number `keep`."""
    kept = {_part_path(path), *(_part_path(volume_path(path, number)) for number in range(1, keep + 1))}
    # Not of another archive whose name begins as this one's does.
    for left in path.parent.glob(f".{glob.escape(path.name)}.[0-9][0-9][0-9].ocibridge-pack.part"):
        if left in kept:
            continue
        with suppress(OSError):
            with open(left, "r+b") as file:
                if try_lock(file.fileno()):
                    left.unlink()


def _existing(path: Path, split: bool) -> list[Path]:
    """What is there of an archive: a list alone is one only for those who would write one."""
    volumes = list(numbered(path).values())
    listed = [list_path(path)] if volumes or split else []
    return [each for each in (path, *volumes, *listed) if os.path.lexists(each)]
