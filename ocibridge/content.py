# SPDX-License-Identifier: Apache-2.0
"""Bytes that can be opened again, from any offset.

A `Content` is a description of bytes, not the bytes: a file range, a string of bytes, or several of them one after
the other. A layer is a `Concatenation` of headers, file ranges and padding, so it is never written to a temporary file,
and a request body can be sent again after a 401 or a broken line.
"""

from __future__ import annotations

import hashlib
import io
import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Protocol, runtime_checkable

from .errors import SourceError, reading
from .settings import READ_SIZE

Reader = io.RawIOBase
"""What `Content.open` gives: `read(n)`, `readinto(buffer)`, `close()`; a context manager."""


class Content(Protocol):
    """Bytes of a known size that can be opened any number of times."""

    @property
    def size(self) -> int:
        """Length in bytes."""
        ...

    def open(self, offset: int = 0) -> Reader:
        """Open for reading from `offset` (bytes) to the end."""
        ...


@dataclass(frozen=True, slots=True)
class Stamp:
    """What tells bytes from other bytes without reading them.

    Attributes:
        identity: Other for other bytes, as far as the system tells.
        changed: When the bytes may last have changed, in nanoseconds since 1970; 0 where they never do.
    """

    identity: tuple[str | int, ...]
    changed: int = 0


@runtime_checkable
class Stamped(Protocol):
    """A content that can be told from others without being read."""

    def stamp(self) -> Stamp | None:
        """Its stamp at this moment; None where there is none now."""
        ...


def stamp_of(content: Content) -> Stamp | None:
    """The stamp of a content at this moment, if it has one."""
    return content.stamp() if isinstance(content, Stamped) else None


class BytesContent:
    """Bytes in memory."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    @property
    def size(self) -> int:
        """Length in bytes."""
        return len(self.data)

    def open(self, offset: int = 0) -> Reader:
        """Open from `offset` bytes."""
        return _BytesReader(self.data, offset)

    def stamp(self) -> Stamp:
        """The sha256 of the bytes."""
        return Stamp(("bytes", hashlib.sha256(self.data).hexdigest()))


class FileContent:
    """A range of a file on disk.

    Args:
        path: The file.
        offset: First byte of the range.
        size: Length of the range in bytes; None takes all that follows `offset` now.
        lasting: Whether the file is one that never changes, such as a blob under its digest.
        whole: Whether the range ends where the file does, so that a file that grows while it is read is found out.

    Raises:
        SourceError: the file cannot be read.
    """

    def __init__(
        self,
        path: str | Path,
        offset: int = 0,
        size: int | None = None,
        *,
        lasting: bool = False,
        whole: bool = False,
    ) -> None:
        self.path = Path(path)
        self.offset = offset
        self.lasting = lasting
        self.whole = whole
        if size is None:
            with reading(self.path):
                size = self.path.stat().st_size - offset
        self._size = size

    @property
    def size(self) -> int:
        """Length in bytes."""
        return self._size

    def open(self, offset: int = 0) -> Reader:
        """Open from `offset` bytes into the range.

        Raises:
            SourceError: the file cannot be read, or (while reading) has become shorter.
        """
        with reading(self.path):
            file = open(self.path, "rb", buffering=0)
            try:
                if self.offset + offset:
                    file.seek(self.offset + offset)
            except OSError:
                file.close()
                raise
        reader = RangeReader(file, self._size - offset, str(self.path))
        reader.lasting = self.lasting
        reader.end = self.offset + self._size if self.whole else None
        return reader

    def stamp(self) -> Stamp | None:
        """Which file it is, when it changed, and the range; None where it cannot be looked at."""
        try:
            status = self.path.stat()
        except OSError:
            return None
        times = status.st_mtime_ns, status.st_ctime_ns
        identity = "file", status.st_dev, status.st_ino, status.st_size, *times, self.offset, self._size
        return Stamp(identity, max(times))


class Concatenation:
    """Several contents, one after the other."""

    def __init__(self, parts: Sequence[Content]) -> None:
        self.parts = parts
        self._ends = list(accumulate(part.size for part in parts))

    @property
    def size(self) -> int:
        """Length in bytes."""
        return self._ends[-1] if self._ends else 0

    def open(self, offset: int = 0) -> Reader:
        """Open from `offset` bytes."""
        return _ConcatenationReader(self, offset)

    def start(self, offset: int) -> tuple[int, int]:
        """Index of the part that holds byte `offset`, and the offset inside it."""
        index = bisect_right(self._ends, offset)
        return index, offset - (self._ends[index - 1] if index else 0)


class _BytesReader(io.RawIOBase):
    def __init__(self, data: bytes, offset: int) -> None:
        self._view = memoryview(data)[offset:]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object, /) -> int:
        target = writable(buffer)
        count = min(len(target), len(self._view))
        target[:count] = self._view[:count]
        self._view = self._view[count:]
        return count


class RangeReader(io.RawIOBase):
    """At most `size` bytes of `file`, which must have them all; closes `file` with itself.

    Attributes:
        lasting: See `FileContent`.
        end: Size that the file must still have when the range has been read; None where that does not matter.
    """

    lasting = False
    end: int | None = None

    def __init__(self, file: io.RawIOBase, size: int, label: str) -> None:
        self._file = file
        self._left = size
        self._label = label

    def readable(self) -> bool:
        """Always true."""
        return True

    def readinto(self, buffer: object, /) -> int:
        """Fill `buffer` as far as the range goes.

        Raises:
            SourceError: the file ends before the range does, or has grown.
        """
        target = writable(buffer)[: self._left]
        if not target:
            if not self._left and self.end is not None and os.fstat(self._file.fileno()).st_size > self.end:
                raise SourceError(
                    f"{self._label} became longer while it was read",
                    hint="run the command again once nothing writes to it",
                )
            return 0
        with reading(self._label):
            count = self._file.readinto(target) or 0
        if not count:
            raise SourceError(
                f"{self._label} became shorter while it was read",
                hint="run the command again once nothing writes to it",
            )
        self._left -= count
        return int(count)

    def place(self) -> tuple[int, int]:
        """The file's descriptor, and the position of the next byte in it."""
        return self._file.fileno(), self._file.tell()

    def close(self) -> None:
        """Close the file too."""
        if not self.closed:
            self._file.close()
        super().close()


class Passing(io.RawIOBase):
    """A reader that gives the bytes of another one as they are, and reads nothing ahead of whoever reads it.

    Attributes:
        source: The other one.
    """

    source: Reader

    def readable(self) -> bool:
        """Always true."""
        return True


def place_of(reader: Reader) -> tuple[int, int] | None:
    """Descriptor and position of the next byte of `reader` in a lasting file, if it is read from one."""
    while isinstance(reader, Passing):
        reader = reader.source
    return reader.place() if isinstance(reader, RangeReader) and reader.lasting else None


class _ConcatenationReader(io.RawIOBase):
    def __init__(self, whole: Concatenation, offset: int) -> None:
        self._parts = whole.parts
        self._next, self._skip = whole.start(offset)
        self._current: Reader | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object, /) -> int:
        target = writable(buffer)
        filled = 0
        while filled < len(target):
            if self._current is None:
                if self._next == len(self._parts):
                    break
                self._current = self._parts[self._next].open(self._skip)
                self._next, self._skip = self._next + 1, 0
            count = self._current.readinto(target[filled:]) or 0
            if not count:
                self._current.close()
                self._current = None
            filled += count
        return filled

    def close(self) -> None:
        if self._current is not None:
            self._current.close()
            self._current = None
        super().close()


def writable(buffer: object) -> memoryview:
    """The bytes of the buffer that a `readinto` was given."""
    return memoryview(buffer).cast("B")  # type: ignore[arg-type]


def chunks(reader: Reader, size: int = READ_SIZE) -> Iterator[memoryview]:
    """Read to the end in full chunks of `size` bytes (the last may be shorter).

    Each chunk is a view of one buffer that the next chunk overwrites; copy what must last. Full chunks make the
    result of an encoder a function of the bytes alone, never of how they happened to arrive.
    """
    buffer = memoryview(bytearray(size))
    while filled := fill(reader, buffer):
        yield buffer[:filled]
        if filled < size:
            return


def fill(reader: Reader, buffer: memoryview) -> int:
    """Read until `buffer` is full or the end is reached; the number of bytes read."""
    filled = 0
    while filled < len(buffer):
        count = reader.readinto(buffer[filled:])
        if not count:
            break
        filled += count
    return filled


def read_all(content: Content) -> bytes:
    """The whole of a small content."""
    with content.open() as reader:
        return b"".join(bytes(chunk) for chunk in chunks(reader, max(1, min(content.size, READ_SIZE))))


def fsync(file: io.RawIOBase | io.BufferedIOBase) -> None:
    """Push a written file to the disk before it gets its final name."""
    file.flush()
    os.fsync(file.fileno())
