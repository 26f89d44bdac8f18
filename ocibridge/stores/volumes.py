# SPDX-License-Identifier: Apache-2.0
"""One long file as volumes of a given size: `NAME.001`, `NAME.002`, …, and their hashes in `NAME.sha256`.

Put together with `cat NAME.??? > NAME` they are the file; `sha256sum --check NAME.sha256` checks them.
"""

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

from ..beside import Beside
from ..content import Concatenation, Content, FileContent, RangeReader, Reader, fill
from ..errors import (
    DestinationError,
    FormatError,
    IntegrityError,
    LimitError,
    NotFound,
    SourceError,
    can_go_on,
    reading,
    writing,
)
from ..filling import turns
from ..locks import take
from ..model import ByteCount, ignore_bytes
from ..settings import KiB
from .files import PartFile

MOST = 999
"""Volumes that a file can have."""
LEAST_SIZE = 64 * KiB
"""Bytes that a volume has at least."""
KEEP = 1024 * KiB
"""Bytes that make an unfinished file worth keeping."""
_NUMBER = re.compile(r"[0-9]{3}")
_LINE = re.compile(r"([0-9a-f]{64}) [ *]([^\\\r\n]+)")
_LONGEST_LIST = 1024 * KiB
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

    def __init__(self, path: Path, size: int | None, beside: Beside, force: bool = False) -> None:
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
            listed = stack.enter_context(PartFile(list_path(self.path))) if lines else None
            if listed:
                listed.write("".join(lines).encode())
                listed.flush()
            old = set(_existing(self.path, bool(lines))) - {each.target for each in parts}
            # Without their list, volumes are not taken for a whole archive.
            for path in sorted(old, key=lambda each: each != list_path(self.path)):
                path.unlink()
            for part in parts:
                part.publish()
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
        return self._found >= KEEP if self._same else self.written >= KEEP and can_go_on(exc)

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
        self._mine = take(self._file.fileno()) and _is_at(status, self.path)
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
                if take(file.fileno()):
                    left.unlink()


def _is_at(status: os.stat_result, path: Path) -> bool:
    """Whether the file is still under its name: whoever had its lock before may have published it."""
    try:
        return os.path.samestat(status, path.lstat())
    except OSError:
        return False


def _existing(path: Path, split: bool) -> list[Path]:
    """What is there of an archive: a list alone is one only for those who would write one."""
    volumes = list(_numbered(path).values())
    listed = [list_path(path)] if volumes or split else []
    return [each for each in (path, *volumes, *listed) if os.path.lexists(each)]


def volume_path(path: Path, number: int) -> Path:
    """Name of a volume."""
    return path.with_name(f"{path.name}.{number:03}")


def list_path(path: Path) -> Path:
    """Name of the list of the volumes' hashes."""
    return path.with_name(f"{path.name}.sha256")


def _numbered(path: Path) -> dict[int, Path]:
    """The files beside `path` that are called as its volumes are, by their numbers."""
    found = {}
    with suppress(OSError):
        for each in path.parent.glob(f"{glob.escape(path.name)}.[0-9][0-9][0-9]"):
            if _NUMBER.fullmatch(each.name[-3:]):
                found[int(each.name[-3:])] = each
    return dict(sorted(found.items()))


def is_there(path: Path) -> bool:
    """Whether there is a file of this name, or a volume of one."""
    return os.path.lexists(path) or bool(_numbered(path))


class Volumes:
    """A file that may be there as volumes.

    Args:
        path: The file; where there is one of this name, its volumes do not matter.

    Attributes:
        files: The file, or its volumes in order.
        content: All their bytes.
        split: Whether they are volumes.

    Raises:
        NotFound: there is neither a file nor a volume, or one volume is missing.
        IntegrityError: a volume is shorter or longer than the first.
        FormatError: the list of hashes is not valid.
        SourceError: something cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        numbered = {} if os.path.lexists(path) else _numbered(path)
        self.split = bool(numbered)
        self._hashes: dict[str, str] | None = None
        if not self.split:
            if not path.exists():
                raise NotFound(
                    f"there is no archive oci-archive:{path}", hint="check the path, or push something to it first"
                )
            with reading(path):
                if not path.is_file():
                    raise FormatError(f"{path} is not a file", hint="write oci:DIR for a layout that is a folder")
        else:
            self._hashes = _read_list(path)
            _check_numbers(path, numbered, self._hashes)
        self.files = list(numbered.values()) or [path]
        parts = [FileContent(each, whole=True) for each in self.files]
        for part in parts[:-1]:
            if part.size != parts[0].size:
                hint = "one of them was not copied whole; copy them again"
                if self._hashes is None:
                    hint = f"copy them again with {list_path(path).name}; where there is none, pack again with --force"
                raise IntegrityError(
                    f"the volume {part.path} has {part.size} bytes, and {parts[0].path.name} has {parts[0].size}",
                    hint=hint,
                )
        if len(parts) > 1 and not 0 < parts[-1].size <= parts[0].size:
            raise IntegrityError(f"the volume {parts[-1].path} has {parts[-1].size} bytes", hint="copy it again")
        self.content: Content = Concatenation(parts) if self.split else parts[0]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return self.content.size

    def verify(self, on_bytes: ByteCount = ignore_bytes) -> None:
        """Compare the volumes with the list of their hashes; a file that is not split has none.

        Args:
            on_bytes: Told the bytes that are read.

        Raises:
            IntegrityError: a volume is damaged.
            NotFound: there is no list.
        """
        if not self.split:
            return
        if self._hashes is None:
            raise NotFound(
                f"there is no {list_path(self.path)}, which belongs to the volumes",
                hint="copy it here too; where there is none, the archive was not finished",
            )
        for file in self.files:
            if _hash(FileContent(file, whole=True), on_bytes) != self._hashes[file.name]:
                raise IntegrityError(
                    f"the volume {file} is damaged (its sha256 is not the one in {list_path(self.path).name})",
                    hint="copy this volume again",
                )


def _hash(content: Content, on_bytes: ByteCount) -> str:
    digest = hashlib.sha256()
    with content.open() as reader, Beside(thread=content.size > LEAST_SIZE) as beside:
        for piece in turns(reader, content.size):
            beside.update(digest, piece)
            on_bytes(len(piece))
            beside.wait(left=1)
    return digest.hexdigest()


def _read_list(path: Path) -> dict[str, str] | None:
    """Hashes by the names of the volumes, as sha256sum(1) writes them; None where there is no list."""
    file = list_path(path)
    if not file.exists():
        return None
    with reading(file), open(file, "rb") as stream:
        data = stream.read(_LONGEST_LIST + 1)
    found = {}
    for line in _lines(data, file):
        match = _LINE.fullmatch(line)
        if match is None or match[2] in found or not _NUMBER.fullmatch(match[2].removeprefix(path.name + ".")):
            raise FormatError(f"{file} is no list of the volumes of {path.name}", hint="copy it again")
        found[match[2]] = match[1]
    return found


def _lines(data: bytes, file: Path) -> Iterator[str]:
    if len(data) > _LONGEST_LIST:
        raise LimitError(f"{file} has more than {_LONGEST_LIST} bytes")
    try:
        yield from data.decode().splitlines()
    except UnicodeDecodeError:
        raise FormatError(f"{file} is not UTF-8", hint="copy it again") from None


def _check_numbers(path: Path, there: dict[int, Path], hashes: dict[str, str] | None) -> None:
    wanted = {volume_path(path, number).name for number in range(1, max(there) + 1)} if hashes is None else set(hashes)
    names = {each.name for each in there.values()}
    if missing := sorted(wanted - names):
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise NotFound(
            f"the volume {path.with_name(missing[0])}{more} is missing", hint="copy all volumes into one folder"
        )
    if strange := sorted(names - wanted):
        raise SourceError(
            f"{path.with_name(strange[0])} is not in {list_path(path).name}",
            hint="remove it: it belongs to another archive of this name",
        )


class Slice:
    """A range of another content.

    Args:
        content: The other one.
        offset: First byte of the range.
        size: Length of the range in bytes.
        label: What messages call it.
    """

    def __init__(self, content: Content, offset: int, size: int, label: str) -> None:
        self._content = content
        self._offset = offset
        self._size = size
        self._label = label

    @property
    def size(self) -> int:
        """Length in bytes."""
        return self._size

    def open(self, offset: int = 0) -> Reader:
        """Open from `offset` bytes into the range."""
        return RangeReader(self._content.open(self._offset + offset), self._size - offset, self._label)
