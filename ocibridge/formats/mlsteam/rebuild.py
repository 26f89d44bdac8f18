# SPDX-License-Identifier: Apache-2.0
"""A zip archive written again from its skeleton, member by member in the order of its bytes.

As long as each member comes out at its old length, everything between the data is written as it was. From the first one
that does not (its deflate stream was never zlib's, or another zlib runs here), headers and directory are made anew from
the fields of the skeleton: an equivalent archive instead of an exact one.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from base64 import b64decode
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from ...errors import DestinationError, FormatError, IntegrityError, writing
from ...paths import show
from ...settings import Limits
from ..zip import check_names, read_directory
from ..zip import records as r
from .deflate import deflate
from .skeleton import Skeleton, SkeletonMember

_LEVEL = 6
_DAMAGED = "the artifact is damaged; publish the archive again"


class _MemberPlace(NamedTuple):
    offset: int
    length: int
    flags: int


class Rebuild:
    """Writes the archive of `skeleton` to `path`, which must not exist.

    Args:
        skeleton: What to write.
        path: The file.
        label: What to call it in messages.

    Raises:
        DestinationError: the file exists or cannot be written; also from every method.
    """

    def __init__(self, skeleton: Skeleton, path: Path, label: str) -> None:
        self._skeleton = skeleton
        self._path = path
        self._label = label
        self._order = sorted(range(len(skeleton.members)), key=lambda index: skeleton.members[index].header_offset)
        self._placed: dict[int, _MemberPlace] = {}
        self._position = 0
        self._digest = hashlib.sha256()
        self._exact = True
        with writing(label):
            self._file = open(path, "xb+", buffering=0)

    @property
    def next(self) -> SkeletonMember | None:
        """The next member."""
        done = len(self._placed)
        return self._skeleton.members[self._order[done]] if done < len(self._order) else None

    def add(self, pieces: Iterable[bytes | memoryview]) -> None:
        """Write the next member, or nothing at all if that fails.

        Args:
            pieces: Its bytes, in pieces whose lengths depend on its size alone (see `ocibridge.io.content.chunks`).

        Raises:
            IntegrityError: they do not have the CRC-32 and size that the skeleton gives.
        """
        index = self._order[len(self._placed)]
        state = self._position, self._digest.copy(), self._exact
        try:
            self._placed[index] = self._add(self._skeleton.members[index], pieces)
        except BaseException:
            self._position, self._digest, self._exact = state
            with writing(self._label):
                self._file.truncate(self._position)
            raise

    def finish(self, limits: Limits) -> bool:
        """Write what follows the members, read the directory back, and flush everything to the disk.

        Returns:
            Whether the archive has the bytes that it had.

        Raises:
            FormatError: the skeleton does not describe an archive of its own members.
        """
        self._write(b64decode(self._skeleton.tail) if self._exact else self._directory())
        with writing(self._label):
            os.fsync(self._file.fileno())
        self._check(limits)
        return self._exact and self._digest.hexdigest() == self._skeleton.sha256

    def close(self) -> None:
        """Close the file; harmless when it is closed."""
        self._file.close()

    def _add(self, member: SkeletonMember, pieces: Iterable[bytes | memoryview]) -> _MemberPlace:
        gap = b64decode(member.gap)
        header = len(gap) - r.LOCAL.size - len(member.raw) - len(b64decode(member.local_extra or ""))
        if header < 0:
            raise FormatError(f"{self._label}: the gap of {show(member.name)} has no header in it", hint=_DAMAGED)
        if not self._exact:
            gap, header = gap[header:], 0
        start = self._position
        self._write(gap)
        level = _LEVEL if member.level is None else member.level
        checked = self._checked(member, pieces)
        for packed in deflate(checked, level) if member.method == r.DEFLATED else checked:
            self._write(packed)
        length = self._position - start - len(gap)
        if not self._exact or length != member.compressed_size:
            self._exact = False
            self._patch(start + header, _local(member, length))
        flags = member.flags if self._exact else member.flags & ~r.FLAG_DESCRIPTOR
        return _MemberPlace(start + header, length, flags)

    def _checked(self, member: SkeletonMember, pieces: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
        size = crc = 0
        for piece in pieces:
            size += len(piece)
            crc = zlib.crc32(piece, crc)
            yield piece
        if (size, crc) != (member.size, member.crc):
            raise IntegrityError(
                f"{self._label}: the file {show(member.name)} has not the size and CRC-32 of the archive", hint=_DAMAGED
            )

    def _directory(self) -> bytes:
        start = self._position
        records = [_central(member, self._placed[index]) for index, member in enumerate(self._skeleton.members)]
        size = sum(map(len, records))
        return b"".join([*records, r.end_records(len(records), size, start)])

    def _check(self, limits: Limits) -> None:
        """Check that a reader sees the members that were written."""
        members = read_directory(self._path, limits)
        check_names(members, self._label)
        seen = [(m.raw_name, m.header_offset, m.compressed_size, m.size, m.crc, m.method) for m in members]
        meant = [
            (m.raw, *self._placed[index][:2], m.size, m.crc, m.method) for index, m in enumerate(self._skeleton.members)
        ]
        if seen != meant or [m.name for m in members] != [m.name for m in self._skeleton.members]:
            raise FormatError(f"{self._label}: the skeleton describes another archive than its members", hint=_DAMAGED)

    def _write(self, data: bytes | memoryview) -> None:
        self._digest.update(data)
        self._position += len(data)
        view = memoryview(data)
        with writing(self._label):
            self._file.seek(self._position - len(data))
            while view:
                view = view[self._file.write(view) :]

    def _patch(self, offset: int, data: bytes) -> None:
        with writing(self._label):
            self._file.seek(offset)
            self._file.write(data)


def _local(member: SkeletonMember, length: int) -> bytes:
    """A local header as long as the old one, for `length` bytes of data without a data descriptor."""
    extra = b64decode(member.local_extra or "")
    sizes = (length, member.size)
    at = next((at for at, kind, body in _blocks(extra) if kind == r.ZIP64_EXTRA and len(body) >= 16), None)
    if at is not None:
        extra = extra[: at + r.EXTRA.size] + r.quads(member.size, length) + extra[at + r.EXTRA.size + 16 :]
        sizes = (r.MAX32, r.MAX32)
    elif max(sizes) >= r.MAX32:
        raise DestinationError(
            f"the member {show(member.name)} has 4 GiB or more, for which its old header has no field",
            hint="pull the model as a folder",
        )
    lengths = (len(member.raw), len(extra))
    common = (member.flags & ~r.FLAG_DESCRIPTOR, member.method, member.time, member.date)
    head = r.LOCAL.pack(r.LOCAL_SIGNATURE, member.extract_version, *common, member.crc, *sizes, *lengths)
    return head + member.raw + extra


def _central(member: SkeletonMember, place: _MemberPlace) -> bytes:
    """A record of the directory with the fields of the old one, except sizes and offset."""
    blocks = [_block(kind, body) for _, kind, body in _blocks(b64decode(member.extra or "")) if kind != r.ZIP64_EXTRA]
    wide = [value for value in (member.size, place.length, place.offset) if value >= r.MAX32]
    if wide:
        blocks.insert(0, _block(r.ZIP64_EXTRA, r.quads(*wide)))
    extra, comment = b"".join(blocks), b64decode(member.comment or "")
    length, size, offset = (min(value, r.MAX32) for value in (place.length, member.size, place.offset))
    return (
        r.CENTRAL.pack(
            r.CENTRAL_SIGNATURE,
            member.create_version,
            member.create_system,
            max(member.extract_version, r.VERSION_ZIP64 if wide else 0),
            *(place.flags, member.method, member.time, member.date),
            *(member.crc, length, size, len(member.raw), len(extra), len(comment)),
            *(0, member.internal_attr, member.external_attr, offset),
        )
        + member.raw
        + extra
        + comment
    )


def _blocks(extra: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Offset, id and body of each extra field."""
    at = 0
    while at + r.EXTRA.size <= len(extra):
        kind, length = r.EXTRA.unpack_from(extra, at)
        body = extra[at + r.EXTRA.size : at + r.EXTRA.size + length]
        yield at, kind, body
        at += r.EXTRA.size + length


def _block(kind: int, body: bytes) -> bytes:
    return r.EXTRA.pack(kind, len(body)) + body
