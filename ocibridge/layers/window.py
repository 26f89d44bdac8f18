# SPDX-License-Identifier: Apache-2.0
"""A stream that is read in large pieces, for whoever takes small ones."""

from __future__ import annotations

from ..io.content import ForwardingReader, Reader, writable


class Window(ForwardingReader):
    """A stream of which some bytes are read ahead, so that small things in it need no read of their own.

    Args:
        reader: The stream; not closed.
        size: Bytes that may be ahead; with 0 nothing is read that nobody has asked for.
    """

    def __init__(self, reader: Reader, size: int) -> None:
        self.source = reader
        self._buffer = memoryview(bytearray(size))
        self._start = self._end = 0

    @property
    def ahead(self) -> bool:
        """Whether bytes are ahead."""
        return self._start < self._end

    def readinto(self, buffer: object, /) -> int:
        """Fill `buffer` with what is ahead, else straight from the stream."""
        target = writable(buffer)
        if self._start == self._end:
            return self.source.readinto(target) or 0
        count = min(len(target), self._end - self._start)
        target[:count] = self._buffer[self._start : self._start + count]
        self._start += count
        return count

    def hold(self, size: int) -> memoryview | None:
        """The next `size` bytes, or all before the end, good until the next read; None where they do not fit."""
        if size > len(self._buffer):
            return None
        if self._start + size > self._end:
            self._more(size)
        start = self._start
        self._start = min(start + size, self._end)
        return self._buffer[start : self._start]

    def _more(self, size: int) -> None:
        left = self._end - self._start
        self._buffer[:left] = self._buffer[self._start : self._end]
        self._start, self._end = 0, left
        while self._end < size and (count := self.source.readinto(self._buffer[self._end :])):
            self._end += count
