# SPDX-License-Identifier: Apache-2.0
"""The bytes of one zip member."""

from __future__ import annotations

import io
import zlib
from pathlib import Path

from ...errors import IntegrityError
from ...io.content import FileContent, Stamp, Stamped
from ...io.readers import Reader, byte_view, skip
from ...paths import show
from ...settings import DEFAULT_LIMITS, Limits
from . import records as r
from .decoders import Decoder, inflater, unzstd
from .reader import Member


class MemberContent(Stamped):
    """The decoded bytes of a member of the archive at `path` (a `Content`).

    A reader that reaches the end has checked that exactly the declared size came out and, unless it started inside a
    Stored member, the CRC-32. At most one byte more than the declared size is ever decoded.

    Args:
        path: The archive.
        member: The member, from `read_directory`.
        limits: `zstd_window` is the one that matters here.
    """

    __slots__ = ("_limits", "member", "path")

    def __init__(self, path: str | Path, member: Member, limits: Limits = DEFAULT_LIMITS) -> None:
        self.path = path
        self.member = member
        self._limits = limits

    @property
    def size(self) -> int:
        """Length of the decoded bytes."""
        return self.member.size

    def open(self, offset: int = 0) -> Reader:
        """Open the decoded bytes from `offset` to the end.

        For a compressed member, the bytes before `offset` are decoded and dropped. A reader that starts inside a Stored
        member does not check the CRC-32.

        Args:
            offset: The position of the first byte to read, in the decoded bytes.

        Raises:
            SourceError: the archive cannot be read.
            IntegrityError: (here or while reading) the data is damaged, cut short or expands past its declared size.
            LimitError: (here or while reading) a zstd frame asks for too large a window.
        """
        member = self.member
        label = f"{self.path}: the member {show(member.name)}"
        data = FileContent(self.path, member.data_offset, member.compressed_size)
        if member.method == r.STORED:
            source = data.open(offset)
            return source if offset else _MemberReader(source, source.readinto, member, label)
        source = data.open()
        decode: Decoder = (
            inflater(source, label) if member.method == r.DEFLATED else unzstd(source, label, self._limits.zstd_window)
        )
        reader = _MemberReader(source, decode, member, label)
        try:
            skip(reader, offset)
        except BaseException:
            reader.close()
            raise
        return reader

    def stamp(self) -> Stamp | None:
        """The stamp of the archive, with the place of the member and how it is compressed."""
        member = self.member
        found = FileContent(self.path, member.data_offset, member.compressed_size).stamp()
        return found and Stamp((*found.identity, "member", member.method, member.size, member.crc), found.changed)


class _MemberReader(io.RawIOBase):
    def __init__(self, source: Reader, decode: Decoder, member: Member, label: str) -> None:
        self._source = source
        self._decode = decode
        self._left = member.size
        self._expected = member.crc
        self._label = label
        self._crc = 0
        self._checked = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object, /) -> int:
        target = byte_view(buffer)[: self._left]
        count = self._decode(target) if target else 0
        if target and not count:
            raise IntegrityError(f"{self._label} is cut short", hint="fetch or pack the archive again")
        self._crc = zlib.crc32(target[:count], self._crc)
        self._left -= count
        if not self._left and not self._checked:
            self._finish()
        return count

    def _finish(self) -> None:
        # Before the last bytes are handed out, so that a caller who counts them never misses the verdict.
        self._checked = True
        if self._decode(memoryview(bytearray(1))):
            raise IntegrityError(
                f"{self._label} expands past its declared size", hint="do not trust this archive; fetch it again"
            )
        if self._crc != self._expected:
            raise IntegrityError(f"{self._label} has a wrong CRC-32", hint="fetch or pack the archive again")

    def close(self) -> None:
        if not self.closed:
            self._source.close()
        super().close()
