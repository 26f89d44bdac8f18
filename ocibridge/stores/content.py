# SPDX-License-Identifier: Apache-2.0
"""A blob of a store as a content, so that a model can be read where it is stored."""

from __future__ import annotations

from ..io.content import BytesContent, Stamp, Stamped
from ..io.readers import JoinedReader, Reader, read_full
from ..oci import Descriptor
from .base import BlobFetcher
from .verified import VerifiedReader

HEAD = 4096
"""Leading bytes that are kept: enough for the header of a tensor; a manifest of 4 MiB names some 20 000 blobs."""


class BlobContent(Stamped):
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
        if self._head is not None:
            kept = self._head
            joined = JoinedReader(
                BytesContent(kept).open(), lambda: open_rest(self._store, self._descriptor, len(kept))
            )
            return VerifiedReader(joined, self._descriptor, self._store.name)
        rest = self._store.resume_blob(self._descriptor, 0)
        try:
            buffer = memoryview(bytearray(min(HEAD, self.size)))
            head = bytes(buffer[: read_full(rest, buffer)])
        except BaseException:
            rest.close()
            raise
        self._head = head if len(head) == len(buffer) else None
        return VerifiedReader(JoinedReader(BytesContent(head).open(), rest), self._descriptor, self._store.name)

    def stamp(self) -> Stamp:
        """The digest, which every read from the start enforces."""
        return Stamp(("blob", self._descriptor.digest))


def open_rest(store: BlobFetcher, descriptor: Descriptor, offset: int) -> Reader:
    """The bytes of a blob from `offset`, which may be its end, unverified."""
    return BytesContent(b"").open() if offset == descriptor.size else store.resume_blob(descriptor, offset)
