# SPDX-License-Identifier: Apache-2.0
"""Hashes of what passes by, made beside reading and sending."""

from __future__ import annotations

import hashlib
import io

from ..beside import Beside
from ..content import Content, Reader, writable
from ..model import ByteCount, ignore_bytes


class Tap:
    """A content that is hashed and counted while it is read, once, from its start.

    Args:
        content: The content.
        beside: Who hashes it.
        on_bytes: Told what was read.
        before: Whose work on earlier bytes must be done before a buffer is filled anew; only the outermost of
            contents that share a buffer may name any.
    """

    def __init__(
        self, content: Content, beside: Beside, on_bytes: ByteCount = ignore_bytes, before: tuple[Beside, ...] = ()
    ) -> None:
        self._content = content
        self.beside = beside
        self.before = before
        self.on_bytes = on_bytes
        self.hash = hashlib.sha256()
        self.count = 0

    @property
    def size(self) -> int:
        """Length in bytes."""
        return self._content.size

    def open(self, offset: int = 0) -> Reader:
        """Open from the start."""
        assert offset == 0
        return TapReader(self._content.open(), self)


class TapReader(io.RawIOBase):
    """What `Tap.open` gives; closes `reader` with itself."""

    def __init__(self, reader: Reader, tap: Tap) -> None:
        self._reader = reader
        self._tap = tap

    def readable(self) -> bool:
        """Always true."""
        return True

    def readinto(self, buffer: object, /) -> int:
        """Fill `buffer`; its bytes are hashed while the caller uses them."""
        tap, target = self._tap, writable(buffer)
        for each in tap.before:
            each.wait()
        count = self._reader.readinto(target) or 0
        tap.beside.update(tap.hash, target[:count])
        tap.count += count
        tap.on_bytes(count)
        return count

    def close(self) -> None:
        """Close the source too."""
        self._reader.close()
        super().close()
