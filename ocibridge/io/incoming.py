# SPDX-License-Identifier: Apache-2.0
"""A file on its way to the disk: read once, in pieces, and hashed in the background."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import cycle

from ..errors import IntegrityError
from ..paths import show
from ..settings import PIECE_SIZE
from .hasher import LARGE, BackgroundHasher
from .readers import ForwardingReader, Reader, read_full

LAG = 2
"""Pieces that may wait for their writing or hashing while the next one is read (`read_pieces`)."""


class IncomingFile:
    """The bytes of one file, to be iterated over once; a piece is good while `LAG` + 1 more are asked for.

    Args:
        path: Its path, for messages.
        size: Its length in bytes.
        reader: Its bytes.
        sha256: Hex sha256 that `reader` itself enforces, or "" where nobody asks for one; with None it is hashed here.

    Attributes:
        hashed: Whether it is hashed here.

    Raises:
        IntegrityError: (at the end) there are more or fewer than `size` bytes.
    """

    def __init__(self, path: str, size: int, reader: Reader, sha256: str | None = None) -> None:
        self.size = size
        self.reader = reader
        self.hashed = sha256 is None
        self._path = path
        self._known = sha256
        self._digest = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """Hex sha256, once the pieces are exhausted."""
        return self._digest.hexdigest() if self._known is None else self._known

    def __iter__(self) -> Iterator[memoryview]:
        whole = self.reader.buffered_rest() if isinstance(self.reader, ForwardingReader) else None
        if whole is not None:
            if self.hashed:
                self._digest.update(whole)
            check_size(self._path, len(whole), self.size)
            yield whole
            return
        done = 0
        with BackgroundHasher(self.hashed and self.size >= LARGE) as hashing:
            for piece in read_pieces(self.reader, self.size):
                if self.hashed:
                    hashing.wait(LAG)
                    hashing.update(self._digest, piece)
                done += len(piece)
                yield piece
        check_size(self._path, done, self.size)

    def read_to_end(self) -> str:
        """Read the whole file and drop its bytes.

        Returns:
            The hex sha256 of the file; if the constructor was given a `sha256`, that value, which may be "".

        Raises:
            IntegrityError: the file has more or fewer bytes than `size`.
        """
        for _ in self:
            pass
        return self.sha256


def read_pieces(reader: Reader, size: int) -> Iterator[memoryview]:
    """Read to the end what should have `size` bytes, in full pieces; their lengths depend on nothing but `size`.

    A piece stays as it is while `LAG` + 1 more are asked for.
    """
    length = min(size + 1, PIECE_SIZE)
    buffers = [memoryview(bytearray(length)) for _ in range(min(LAG + 2, -(-(size + 1) // length)))]
    for buffer in cycle(buffers):
        filled = read_full(reader, buffer)
        if filled:
            yield buffer[:filled]
        if filled < length:
            return


def check_size(path: str, done: int, size: int) -> None:
    """Raise `IntegrityError` unless `done` bytes arrived of the `size` promised."""
    if done != size:
        raise IntegrityError(f"{show(path)} has {done} bytes, not the {size} promised", hint="run the command again")
