# SPDX-License-Identifier: Apache-2.0
"""A blob of a store as a content, so that a model can be read where it is stored."""

from __future__ import annotations

import io

from ..io.content import Reader, Stamp, fill, writable
from ..oci import Descriptor
from .base import BlobFetcher
from .verified import VerifiedReader

HEAD = 4096
"""Leading bytes that are kept: enough for the header of a tensor; a manifest of 4 MiB names some 20 000 blobs."""


class BlobContent:
    """A blob that is fetched when it is read, from an open store.

    A reader that is closed early drops its connection. What the first one has read of the first `HEAD` bytes is kept,
    so that a look at a header, and then at the whole, is one request more than the whole.

    Args:
        store: Where the blob is; it must stay open.
        descriptor: The blob.
    """

    def __init__(self, store: BlobFetcher, descriptor: Descriptor) -> None:
        self._store = store
        self._descriptor = descriptor
        self._head: bytes | None = None

    @property
    def size(self) -> int:
        """Length in bytes."""
        return self._descriptor.size

    def open(self, offset: int = 0) -> Reader:
        """Open from `offset` bytes; from the start, the reader fails at its end unless size and digest match.

        Raises:
            StoreError: the store does not have the blob, or cannot be reached.
        """
        if offset:
            return self._store.resume_blob(self._descriptor, offset)
        head, rest = self._head, None
        if head is None:
            rest = self._store.resume_blob(self._descriptor, 0)
            try:
                buffer = memoryview(bytearray(min(HEAD, self.size)))
                head = bytes(buffer[: fill(rest, buffer)])
            except BaseException:
                rest.close()
                raise
            self._head = head if len(head) == len(buffer) else None
        return VerifiedReader(_Joined(head, rest, self), self._descriptor, self._store.name)

    def stamp(self) -> Stamp:
        """The digest, which every read from the start enforces."""
        return Stamp(("blob", self._descriptor.digest))


class _Joined(io.RawIOBase):
    """The bytes kept, then those of `rest`, which is opened when it is needed."""

    def __init__(self, head: bytes, rest: Reader | None, content: BlobContent) -> None:
        self._head = memoryview(head)
        self._rest = rest
        self._content = content
        self._at = len(head)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object, /) -> int:
        target = writable(buffer)
        if self._head:
            count = min(len(target), len(self._head))
            target[:count] = self._head[:count]
            self._head = self._head[count:]
            return count
        if self._rest is None:
            if self._at == self._content.size:
                return 0
            self._rest = self._content.open(self._at)
        return self._rest.readinto(target) or 0

    def close(self) -> None:
        if self._rest is not None:
            self._rest.close()
        super().close()
