# SPDX-License-Identifier: Apache-2.0
"""Readers of bytes: streams that are read forward, and what is put around them."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Iterator

from ..errors import SourceError, reading
from ..settings import READ_SIZE, KiB

Reader = io.RawIOBase
"""What `Content.open` gives: `read(n)`, `readinto(buffer)`, `close()`; a context manager."""

ByteCount = Callable[[int], None]
"""Called with the number of bytes that were transferred."""


def ignore_bytes(count: int) -> None:
    """A `ByteCount` for those who do not watch."""


class RangeReader(io.RawIOBase):
    """At most `size` bytes of `file`, which must have them all; closes `file` with itself.

    Attributes:
        lasting: See `ocibridge.io.content.FileContent`.
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
        target = byte_view(buffer)[: self._left]
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

    def position(self) -> tuple[int, int]:
        """The file's descriptor, and the position of the next byte in it."""
        return self._file.fileno(), self._file.tell()

    def close(self) -> None:
        """Close the file too."""
        if not self.closed:
            self._file.close()
        super().close()


class PieceReader(io.RawIOBase):
    """A reader of pieces that an iterator makes."""

    def __init__(self, pieces: Iterator[bytes | memoryview]) -> None:
        self._pieces = pieces
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """Always true."""
        return True

    def readinto(self, buffer: object, /) -> int:
        """Fill `buffer` from the pieces."""
        target = byte_view(buffer)
        while target and not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = memoryview(piece)
        count = min(len(target), len(self._rest))
        target[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


class JoinedReader(io.RawIOBase):
    """Two readers, one after the other; both are closed with this one.

    Args:
        first: The one that is read first.
        then: The other one, or what opens it once the first one has ended.
    """

    def __init__(self, first: Reader, then: Reader | Callable[[], Reader]) -> None:
        self._first: Reader | None = first
        self._then = then

    def readable(self) -> bool:
        """Always true."""
        return True

    def readinto(self, buffer: object, /) -> int:
        """Fill `buffer` from the first reader, or from the other one where the first has ended."""
        target = byte_view(buffer)
        if self._first is not None:
            count = self._first.readinto(target) or 0
            if count or not target:
                return count
            self._first.close()
            self._first = None
        if not isinstance(self._then, io.RawIOBase):
            self._then = self._then()
        return self._then.readinto(target) or 0

    def close(self) -> None:
        """Close what is open."""
        for each in (self._first, self._then):
            if isinstance(each, io.RawIOBase):
                each.close()
        super().close()


class SkippingReader(io.RawIOBase):
    """Bytes that are opened anew after those that are passed over, where these are many.

    Args:
        open_at: Opens the bytes at an offset.
        size: Their number.
        far: Bytes passed over from which that pays; fewer are read.

    Attributes:
        position: Bytes that were read or passed over.
        jumps: How often many were passed over.
    """

    def __init__(self, open_at: Callable[[int], Reader], size: int, far: int = 0) -> None:
        self._open_at = open_at
        self._size = size
        self._far = far
        self._reader: Reader | None = None
        self.position = self.jumps = 0

    def readable(self) -> bool:
        """Always true."""
        return True

    def readinto(self, buffer: object, /) -> int:
        """Fill `buffer` from where the last read or `skip` has ended."""
        target = byte_view(buffer)[: self._size - self.position]
        if not target:
            return 0
        if self._reader is None:
            self._reader = self._open_at(self.position)
        count = self._reader.readinto(target) or 0
        self.position += count
        return count

    def skip(self, count: int) -> int:
        """Pass over `count` bytes, or as many as there are; their number."""
        count = min(count, self._size - self.position)
        if count <= self._far:
            return _read_away(self, count)
        self._drop()
        self.position += count
        self.jumps += 1
        return count

    def close(self) -> None:
        """Close what is open."""
        self._drop()
        super().close()

    def _drop(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None


class ForwardingReader(io.RawIOBase):
    """A reader that gives the bytes of another one as they are.

    Attributes:
        source: The other one.
        closes_source: Whether it is closed with this one.
    """

    source: Reader
    closes_source = True

    def readable(self) -> bool:
        """Always true."""
        return True

    @property
    def ahead(self) -> bool:
        """True if more was read of `source` than was given."""
        return False

    def buffered_rest(self) -> memoryview | None:
        """All that is left, where it is little and in memory; good until something else is read from `source`."""
        return None

    def close(self) -> None:
        """Close the source too, if it is this reader's own."""
        if self.closes_source and not self.closed:
            self.source.close()
        super().close()


class LimitedReader(ForwardingReader):
    """At most the next `size` bytes of `source`, which is closed with it."""

    def __init__(self, source: Reader, size: int) -> None:
        self.source = source
        self._left = size

    def readinto(self, buffer: object, /) -> int:
        """Fill `buffer` as far as the limit allows."""
        count = self.source.readinto(byte_view(buffer)[: self._left]) or 0 if self._left else 0
        self._left -= count
        return count


class HashingReader(ForwardingReader):
    """A reader that hashes the bytes read from `source`.

    Attributes:
        hash: SHA-256 of what was read.
        count: Number of bytes that were read.
    """

    def __init__(self, source: Reader) -> None:
        self.source = source
        self.hash = hashlib.sha256()
        self.count = 0

    def readinto(self, buffer: object, /) -> int:
        """Fill `buffer`, hashing on the way."""
        target = byte_view(buffer)
        count = self.source.readinto(target) or 0
        self.hash.update(target[:count])
        self.count += count
        return count


class ProgressReader(ForwardingReader):
    """A reader that tells how much was read of it; closing it leaves the source open."""

    closes_source = False

    def __init__(self, source: Reader, on_bytes: ByteCount) -> None:
        self.source = source
        self._on_bytes = on_bytes

    def readinto(self, buffer: object, /) -> int:
        """Fill `buffer`, and report."""
        count = self.source.readinto(byte_view(buffer)) or 0
        self._on_bytes(count)
        return count


class ReadAheadReader(ForwardingReader):
    """A stream of which some bytes are read ahead, so that small things in it need no read of their own.

    Args:
        source: The stream; not closed.
        size: Bytes that may be ahead; with 0 nothing is read that nobody has asked for.
    """

    closes_source = False

    def __init__(self, source: Reader, size: int) -> None:
        self.source = source
        self._buffer = memoryview(bytearray(size))
        self._start = self._end = 0

    @property
    def ahead(self) -> bool:
        """True if bytes are ahead."""
        return self._start < self._end

    def readinto(self, buffer: object, /) -> int:
        """Fill `buffer` with what is ahead, else straight from the stream."""
        target = byte_view(buffer)
        if self._start == self._end:
            return self.source.readinto(target) or 0
        count = min(len(target), self._end - self._start)
        target[:count] = self._buffer[self._start : self._start + count]
        self._start += count
        return count

    def read_view(self, size: int) -> memoryview | None:
        """The next `size` bytes, or all before the end, good until the next read; None where they do not fit."""
        if size > len(self._buffer):
            return None
        if self._start + size > self._end:
            self._read_ahead(size)
        start = self._start
        self._start = min(start + size, self._end)
        return self._buffer[start : self._start]

    def skip(self, count: int) -> int:
        """Pass over `count` bytes, or as many as there are; their number."""
        ahead = min(count, self._end - self._start)
        self._start += ahead
        return ahead + skip(self.source, count - ahead)

    def _read_ahead(self, size: int) -> None:
        left = self._end - self._start
        self._buffer[:left] = self._buffer[self._start : self._end]
        self._start, self._end = 0, left
        while self._end < size and (count := self.source.readinto(self._buffer[self._end :])):
            self._end += count


def file_position(reader: Reader) -> tuple[int, int] | None:
    """Descriptor and position of the next byte of `reader` in a lasting file, if it is read from one."""
    while isinstance(reader, ForwardingReader):
        if reader.ahead:
            return None
        reader = reader.source
    return reader.position() if isinstance(reader, RangeReader) and reader.lasting else None


def byte_view(buffer: object) -> memoryview:
    """The bytes of the buffer that a `readinto` was given."""
    return memoryview(buffer).cast("B")  # type: ignore[arg-type]


def chunks(reader: Reader, size: int = READ_SIZE) -> Iterator[memoryview]:
    """Read to the end in full chunks of `size` bytes (the last may be shorter).

    Each chunk is a view of one buffer that the next chunk overwrites; copy what must last. Full chunks make the
    result of an encoder a function of the bytes alone, never of how they happened to arrive.
    """
    buffer = memoryview(bytearray(size))
    while filled := read_full(reader, buffer):
        yield buffer[:filled]
        if filled < size:
            return


def drain(reader: Reader) -> None:
    """Read to the end, where a reader checks what it has read."""
    # A small buffer: very many small files have nothing left.
    for _ in chunks(reader, 64 * KiB):
        pass


def read_full(reader: Reader, buffer: memoryview) -> int:
    """Read until `buffer` is full or the end is reached; the number of bytes read."""
    filled = 0
    while filled < len(buffer):
        count = reader.readinto(buffer[filled:])
        if not count:
            break
        filled += count
    return filled


def skip(reader: Reader, count: int) -> int:
    """Pass over `count` bytes, or as many as there are; their number."""
    if isinstance(reader, SkippingReader | ReadAheadReader):
        return reader.skip(count)
    return _read_away(reader, count)


def _read_away(reader: Reader, count: int) -> int:
    done = 0
    buffer = memoryview(bytearray(min(count, READ_SIZE)))
    while done < count and (read := reader.readinto(buffer[: count - done])):
        done += read
    return done
