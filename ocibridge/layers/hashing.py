# SPDX-License-Identifier: Apache-2.0
"""A reader that hashes what it gives."""

from __future__ import annotations

import hashlib

from ..io.content import ForwardingReader, Reader, writable


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
