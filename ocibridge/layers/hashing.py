# SPDX-License-Identifier: Apache-2.0
"""Hashes of what passes by, made beside reading and sending."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterable

from ..io.content import ByteCount, ForwardingReader, Reader, writable
from ..io.hasher import SMALL, BackgroundHasher


class HashedReader(ForwardingReader):
    """A reader that hashes the bytes read from `reader`, and closes it with itself."""

    def __init__(self, reader: Reader) -> None:
        self.source = reader
        self.hash = hashlib.sha256()

    def readinto(self, buffer: object, /) -> int:
        """Fill `buffer`, hashing on the way."""
        target = writable(buffer)
        count = self.source.readinto(target) or 0
        self.hash.update(target[:count])
        return count

    def close(self) -> None:
        """Close the source too."""
        self.source.close()
        super().close()


class Tally(ForwardingReader):
    """What is read of a content, once, from its start; its hash, and those of the files in it.

    Args:
        reader: The content, closed with this reader.
        sizes: For each file in it the bytes before it that are of no file, and its own; None where it is a file itself.
        beside: The hashers of everything and of the files.
        on_bytes: Called with the number of bytes of files that were read.

    Attributes:
        hash: Hash of everything.
    """

    def __init__(
        self,
        reader: Reader,
        sizes: Iterable[tuple[int, int]] | None,
        beside: tuple[BackgroundHasher, BackgroundHasher],
        on_bytes: ByteCount,
    ) -> None:
        self.source = reader
        self.hash = hashlib.sha256()
        self._all, self._each = beside
        self._on_bytes = on_bytes
        self._files: list[str | hashlib._Hash] = []
        self._split = None if sizes is None else self._hashing(sizes)
        if self._split:
            next(self._split)

    def readinto(self, buffer: object, /) -> int:
        """Fill `buffer`; its bytes are hashed while the caller uses them."""
        target = writable(buffer)
        self._settle()
        target = target[: self.source.readinto(target) or 0]
        self._all.update(self.hash, target)
        self._on_bytes(self._split.send(target) if self._split else len(target))
        return len(target)

    def files(self) -> list[str]:
        """Hex sha256 of each file, in their order; after everything was read."""
        self._settle()
        if not self._split:
            return [self.hash.hexdigest()]
        return [each if isinstance(each, str) else each.hexdigest() for each in self._files]

    def close(self) -> None:
        """Close the source too."""
        if self._split:
            # It refers to this reader and to the caller's buffer: both would stay until the garbage collector comes.
            self._split.close()
        self.source.close()
        super().close()

    def _settle(self) -> None:
        self._all.wait()
        self._each.wait()

    def _hashing(self, sizes: Iterable[tuple[int, int]]) -> Generator[int, memoryview, None]:
        """Takes the bytes piece by piece, and gives the number of those that are of files."""
        view = yield 0
        count = 0
        for gap, size in sizes:
            while gap > len(view):
                gap -= len(view)
                view = yield count
                count = 0
            view = view[gap:]
            if size < SMALL and size <= len(view):
                self._files.append(hashlib.sha256(view[:size]).hexdigest())
                view = view[size:]
                count += size
                continue
            digest = hashlib.sha256()
            self._files.append(digest)
            while size:
                part = view[:size]
                self._each.update(digest, part)
                view = view[len(part) :]
                size -= len(part)
                count += len(part)
                if size:
                    view = yield count
                    count = 0
        while True:
            yield count
            count = 0
