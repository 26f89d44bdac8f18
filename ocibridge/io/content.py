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
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple, Protocol

from ..errors import SourceError, reading
from ..settings import READ_SIZE

Reader = io.RawIOBase
"""What `Content.open` gives: `read(n)`, `readinto(buffer)`, `close()`; a context manager."""


ByteCount = Callable[[int], None]
"""Told the number of bytes that have just moved."""


def ignore_bytes(count: int) -> None:
    """A `ByteCount` for those who do not watch."""


class Content(Protocol):
    """Bytes of a known size that can be opened any number of times."""

    @property
    def size(self) -> int:
        """Length in bytes."""
        ...

    def open(self, offset: int = 0) -> Reader:
        """Open for reading from `offset` (bytes) to the end."""
        ...


class Stamp(NamedTuple):
    """What tells bytes from other bytes without reading them.

    Attributes:
        identity: Other for other bytes, as far as the system tells.
        changed: When the bytes may last have changed, in nanoseconds since 1970; 0 where they never do.
    """

    identity: tuple[str | int, ...]
    changed: int = 0


def stamp_of(content: Content) -> Stamp | None:
    """The stamp of a content at this moment, if it has one: what its method `stamp` gives, or None now."""
    stamp: Callable[[], Stamp | None] | None = getattr(content, "stamp", None)
    return stamp() if stamp else None


def seen_stamp(content: Content) -> Stamp | None:
    """The stamp of a content when it was found, if it remembers; else that of this moment."""
    seen: Stamp | None = getattr(content, "seen", None)
    return seen or stamp_of(content)


def read_stamp(content: Content) -> Stamp | None:
    """The stamp of a content after it was last read, if it was looked at then; else that of this moment."""
    read: Stamp | None = getattr(content, "read", None)
    return read or stamp_of(content)


def file_stamp(status: os.stat_result, offset: int, size: int) -> Stamp:
    """The stamp of a range of a file: which file it is, when it changed, and the range."""
    times = status.st_mtime_ns, status.st_ctime_ns
    return Stamp(("file", status.st_dev, status.st_ino, status.st_size, *times, offset, size), max(times))


class BytesContent:
    """Bytes in memory."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data

    @property
    def size(self) -> int:
        """Length in bytes."""
        return len(self.data)

    def open(self, offset: int = 0) -> Reader:
        """Open from `offset` bytes."""
        return _BytesReader(self.data, offset)

    def load(self, target: memoryview) -> bool:
        """Fill `target`, which is as long."""
        target[:] = self.data
        return True

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
        seen: Its stamp, where whoever found the file knows it.

    Attributes:
        size: Length of the range in bytes.
        read: The stamp of what was read last, where that was read at once (`load`) and `seen` is known.

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
        seen: Stamp | None = None,
    ) -> None:
        self._name = os.fspath(path)
        self.offset = offset
        self.lasting = lasting
        self.whole = whole
        self.seen = seen
        self.read: Stamp | None = None
        if size is None:
            with reading(self._name):
                size = os.stat(self._name).st_size - offset  # noqa: PTH116
        self.size = size

    @property
    def path(self) -> Path:
        """The file."""
        return Path(self._name)

    def open(self, offset: int = 0) -> Reader:
        """Open from `offset` bytes into the range.

        Raises:
            SourceError: the file cannot be read, or (while reading) has become shorter.
        """
        self.read = None
        with reading(self._name):
            file = open(self._name, "rb", buffering=0)
            try:
                if self.offset + offset:
                    file.seek(self.offset + offset)
            except OSError:
                file.close()
                raise
        reader = RangeReader(file, self.size - offset, self._name)
        reader.lasting = self.lasting
        reader.end = self.offset + self.size if self.whole else None
        return reader

    def load(self, target: memoryview) -> bool:
        """Fill `target`, which is as long as the range, at once; False where only a reader can tell what is wrong."""
        if not hasattr(os, "preadv"):
            return False
        try:
            handle = os.open(self._name, os.O_RDONLY)
            try:
                # A file that has grown gives the byte more.
                count = os.preadv(handle, (target, bytearray(self.whole)), self.offset)
                # Any change of the bytes that were read shows by now: nobody has to find the file again for that.
                self.read = file_stamp(os.fstat(handle), self.offset, self.size) if self.seen else None
                return count == self.size
            finally:
                os.close(handle)
        except OSError:
            return False

    def stamp(self) -> Stamp | None:
        """Which file it is, when it changed, and the range; None where it cannot be looked at."""
        try:
            status = os.stat(self._name)  # noqa: PTH116
        except OSError:
            return None
        return file_stamp(status, self.offset, self.size)


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


class ForwardingReader(io.RawIOBase):
    """A reader that gives the bytes of another one as they are.

    Attributes:
        source: The other one.
    """

    source: Reader

    def readable(self) -> bool:
        """Always true."""
        return True

    @property
    def ahead(self) -> bool:
        """Whether more was read of `source` than was given."""
        return False

    def at_hand(self) -> memoryview | None:
        """All that is left, where it is little, and in memory; good until something else is read from `source`."""
        return None


def place_of(reader: Reader) -> tuple[int, int] | None:
    """Descriptor and position of the next byte of `reader` in a lasting file, if it is read from one."""
    while isinstance(reader, ForwardingReader):
        if reader.ahead:
            return None
        reader = reader.source
    return reader.place() if isinstance(reader, RangeReader) and reader.lasting else None


class _ConcatenationReader(io.RawIOBase):
    def __init__(self, whole: Concatenation, offset: int) -> None:
        self._parts = whole.parts
        self._next, self._skip = whole.start(offset)
        self._current: Reader | None = None
        self._left = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object, /) -> int:
        target = writable(buffer)
        filled = 0
        while filled < len(target):
            if self._current is None:
                if self._next == len(self._parts):
                    break
                part, skip = self._parts[self._next], self._skip
                self._next, self._skip = self._next + 1, 0
                end = filled + part.size
                if not skip and end <= len(target) and _load(part, target[filled:end]):
                    filled = end
                    continue
                self._current, self._left = part.open(skip), part.size - skip
            count = self._current.readinto(target[filled:]) or 0
            self._left -= count
            if self._left < 0 or (self._left and not count):
                raise SourceError(
                    f"a source gave {'more' if self._left < 0 else 'fewer'} bytes than were announced",
                    hint="run the command again once nothing writes to it",
                )
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


def _load(part: Content, target: memoryview) -> bool:
    """Fill `target` with the whole of a part without a reader, as layers have many small ones; False: it needs one."""
    load: Callable[[memoryview], bool] | None = getattr(part, "load", None)
    return load is not None and load(target)


def writable(buffer: object) -> memoryview:
    """The bytes of the buffer that a `readinto` was given."""
    return memoryview(buffer).cast("B")  # type: ignore[arg-type]


class JoinedReader(io.RawIOBase):
    """The bytes of one reader, then those of another.

    Args:
        first: The first one.
        then: The other one, or what opens it once it is needed.
    """

    def __init__(self, first: Reader, then: Reader | Callable[[], Reader]) -> None:
        self._reader = first
        self._then: Reader | Callable[[], Reader] | None = then

    def readable(self) -> bool:
        """Always true."""
        return True

    def readinto(self, buffer: object, /) -> int:
        """Fill `buffer` from the reader whose turn it is."""
        target = writable(buffer)
        count = self._reader.readinto(target) or 0
        if count or not target or self._then is None:
            return count
        self._reader.close()
        self._reader, self._then = self._then() if callable(self._then) else self._then, None
        return self._reader.readinto(target) or 0

    def close(self) -> None:
        """Close what is open."""
        self._reader.close()
        if self._then is not None and not callable(self._then):
            self._then.close()
        super().close()


class PieceReader(io.RawIOBase):
    """A reader of pieces that a generator makes."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """Always true."""
        return True

    def readinto(self, buffer: object, /) -> int:
        """Fill `buffer` from the pieces."""
        target = writable(buffer)
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None or not len(target):
                return 0
            self._rest = memoryview(piece)
        count = min(len(target), len(self._rest))
        target[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


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
