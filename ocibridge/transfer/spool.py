# SPDX-License-Identifier: Apache-2.0
"""A blob that is kept in a file while it is read, for the process that resumes."""

from __future__ import annotations

import io
import os
from contextlib import suppress
from pathlib import Path

from ..io.positioned import PositionedWriter
from ..io.readers import Reader, byte_view

_SPOOL = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


class SpooledReader(io.RawIOBase):
    """A blob being read, and written to a file on the way; a disk without space for both keeps none of it.

    Args:
        reader: The blob, closed with this reader.
        path: The file.
        kept: Bytes that it has already.
    """

    def __init__(self, reader: Reader, path: Path, kept: int) -> None:
        self._reader = reader
        self._path = path
        self._handle: int | None = None
        self._filler: PositionedWriter | None = None
        with suppress(OSError):
            self._handle = os.open(path, _SPOOL, 0o600)
            os.ftruncate(self._handle, kept)
            self._filler = PositionedWriter(self._handle, kept=kept)

    def readable(self) -> bool:
        """Always true."""
        return True

    def readinto(self, buffer: object, /) -> int:
        """Fill `buffer`, writing on the way."""
        target = byte_view(buffer)
        count = self._reader.readinto(target) or 0
        if self._filler:
            try:
                self._filler.write(target[:count])
            except OSError:
                self._end()
                with suppress(OSError):
                    self._path.unlink()
        return count

    def close(self) -> None:
        """Close the blob and the file."""
        self._end()
        self._reader.close()
        super().close()

    def _end(self) -> None:
        handle, self._handle, self._filler = self._handle, None, None
        if handle is not None:
            os.close(handle)
