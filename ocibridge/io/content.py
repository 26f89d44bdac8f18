# SPDX-License-Identifier: Apache-2.0
"""Bytes that can be opened again, from any offset.

A `Content` is a description of bytes, not the bytes: a file range, a string of bytes, or several of them one after
the other. A layer is a `Concatenation` of headers, file ranges and padding, so it is never written to a temporary file,
and a request body can be sent again after a 401 or a broken connection.
"""

from __future__ import annotations

import hashlib
import io
import os
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple, Protocol

from ..errors import SourceError, reading
from ..settings import READ_SIZE
from .readers import PieceReader, RangeReader, Reader, byte_view, chunks


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
    """Identifies bytes without reading them.

    Attributes:
        identity: Other for other bytes, as far as the system tells.
        changed: When the bytes may last have changed, in nanoseconds since 1970; 0 where they never do.
    """

    identity: tuple[str | int, ...]
    changed: int = 0


class Stamped:
    """A base class of contents whose bytes can be identified without reading them."""

    __slots__ = ()

    def stamp(self) -> Stamp | None:
        """The stamp at this moment; None where it cannot be found."""
        raise NotImplementedError

    def found_stamp(self) -> Stamp | None:
        """The stamp when the content was found, if it remembers; else that of this moment."""
        return self.stamp()

    def read_stamp(self) -> Stamp | None:
        """The stamp after the content was last read, if it was looked at then; else that of this moment."""
        return self.stamp()


class Loadable:
    """A base class of contents that need no reader where all of them is wanted, as layers have many small ones."""

    __slots__ = ()

    def load(self, target: memoryview) -> bool:
        """Fill `target`, which is as long as the content; False where it needs a reader."""
        raise NotImplementedError


def file_stamp(status: os.stat_result, offset: int, size: int) -> Stamp:
    """The stamp of a range of a file: which file it is, when it changed, and the range."""
    times = status.st_mtime_ns, status.st_ctime_ns
    return Stamp(("file", status.st_dev, status.st_ino, status.st_size, *times, offset, size), max(times))


class BytesContent(Stamped, Loadable):
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
        return PieceReader(iter((memoryview(self.data)[offset:],)))

    def load(self, target: memoryview) -> bool:
        """Fill `target`, which is as long."""
        target[:] = self.data
        return True

    def stamp(self) -> Stamp:
        """The sha256 of the bytes."""
        return Stamp(("bytes", hashlib.sha256(self.data).hexdigest()))


class FileContent(Stamped, Loadable):
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
        """Identity of the file, its times, and the range; None if it cannot be examined."""
        try:
            status = os.stat(self._name)  # noqa: PTH116
        except OSError:
            return None
        return file_stamp(status, self.offset, self.size)

    def found_stamp(self) -> Stamp | None:
        """Return `seen` of the content, else its `stamp`."""
        return self.seen or self.stamp()

    def read_stamp(self) -> Stamp | None:
        """Return `read` of the content, else its `stamp`."""
        return self.read or self.stamp()


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


class _ConcatenationReader(io.RawIOBase):
    def __init__(self, whole: Concatenation, offset: int) -> None:
        self._parts = whole.parts
        self._next, self._skip = whole.start(offset)
        self._current: Reader | None = None
        self._left = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object, /) -> int:
        target = byte_view(buffer)
        filled = 0
        while filled < len(target):
            if self._current is None:
                if self._next == len(self._parts):
                    break
                part, skip = self._parts[self._next], self._skip
                self._next, self._skip = self._next + 1, 0
                end = filled + part.size
                if not skip and end <= len(target) and isinstance(part, Loadable) and part.load(target[filled:end]):
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


def read_all(content: Content) -> bytes:
    """The whole of a small content."""
    with content.open() as reader:
        return b"".join(bytes(chunk) for chunk in chunks(reader, max(1, min(content.size, READ_SIZE))))
