# SPDX-License-Identifier: Apache-2.0
"""The directory of a zip archive, read strictly.

Zip readers disagree about broken archives, and what they disagree about can hide a file. So an archive is read only
if there is one way to read it: the records follow each other without overlap from the first byte, the directory ends
where its end record begins, and the local header of each member says what the directory says (APPNOTE 6.3.10).
"""

from __future__ import annotations

import stat
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ...errors import FormatError, LimitError, reading
from ...paths import check_collisions, check_path, show
from ...settings import DEFAULT_LIMITS, Limits
from . import records as r

_METHODS = {1: "shrink", 6: "implode", 9: "deflate64", 12: "bzip2", 14: "lzma", 20: "zstd (old id)", 95: "xz"}
_SEARCH = r.END.size + r.MAX16


@dataclass(frozen=True, slots=True)
class Member:
    """One member as the directory describes it; names as in APPNOTE 4.4.

    `time` and `date` are the raw DOS numbers: real archives have a month of 0. Sizes and offsets are bytes, after
    zip64. `extra` is the field of the directory, `local_extra` that of the local header.
    """

    name: str
    raw_name: bytes
    create_version: int
    create_system: int
    extract_version: int
    flags: int
    method: int
    time: int
    date: int
    crc: int
    compressed_size: int
    size: int
    internal_attr: int
    external_attr: int
    extra: bytes
    local_extra: bytes
    comment: bytes
    header_offset: int
    data_offset: int

    @property
    def is_symlink(self) -> bool:
        """True if it is a symbolic link, made on a system that has them."""
        return self.create_system == r.SYSTEM_UNIX and stat.S_ISLNK(self.external_attr >> 16)

    @property
    def is_dir(self) -> bool:
        """True if it is a directory entry: the name ends in a slash, and there is no data."""
        return self.name.endswith("/") and not self.size


class _End(NamedTuple):
    offset: int
    size: int
    entries: int


class _Central(NamedTuple):
    raw_name: bytes
    fields: tuple[int, ...]
    extra: bytes
    comment: bytes
    compressed_size: int
    size: int
    header_offset: int


def read_directory(path: str | Path, limits: Limits = DEFAULT_LIMITS) -> tuple[Member, ...]:
    """The members of the zip archive at `path`, in the order of its directory.

    Names are decoded but not judged; see `check_names`. A comment, and bytes after the archive, are accepted.

    Raises:
        SourceError: the file cannot be read.
        LimitError: the directory is larger than `limits.directory` or has more than `limits.entries` members.
        FormatError: the archive is broken, ambiguous, encrypted, split, or uses another method than Stored, Deflate
            and zstd.
    """
    with reading(path), open(path, "rb") as file:
        return _Directory(file, str(path), limits).members()


def check_names(members: Sequence[Member], owner: str) -> None:
    """Refuse members whose names are unsafe, collide, or are a folder that contains data.

    Raises:
        FormatError: see `ocibridge.paths.check_path` and `check_collisions`.
    """
    files = []
    for member in members:
        if not member.name.endswith("/"):
            files.append(check_path(member.name, owner))
            continue
        check_path(member.name[:-1], owner)
        if not member.is_dir:
            raise FormatError(
                f"{owner}: the member {show(member.name)} is named like a folder but contains {member.size} bytes",
                hint="a runner that returned one file instead of a folder packs so; name the file and pack again",
            )
    check_collisions(files, owner)
    known = set(files)
    for member in members:
        if member.is_dir and member.name[:-1] in known:
            raise FormatError(
                f"{owner}: {show(member.name[:-1])} is both a file and a folder",
                hint="rename one of the two and pack again",
            )


class _Directory:
    def __init__(self, file: BinaryIO, owner: str, limits: Limits) -> None:
        self._file = file
        self._owner = owner
        self._limits = limits
        self._size = file.seek(0, 2)

    def members(self) -> tuple[Member, ...]:
        end = self._end()
        entries = self._central(end)
        places = sorted(range(len(entries)), key=lambda index: entries[index].header_offset)
        found: list[Member | None] = [None] * len(entries)
        position = 0
        for index in places:
            entry = entries[index]
            if not position and entry.header_offset:
                raise self._prefixed()
            if entry.header_offset < position:
                raise self._broken(f"the member {_show(entry.raw_name)} overlaps another")
            member = self._member(entry, end.offset)
            position = member.data_offset + member.compressed_size
            if position > end.offset:
                raise self._broken(f"the data of {show(member.name)} runs past the members")
            found[index] = member
        if not entries and end.offset:
            raise self._prefixed()
        return tuple(member for member in found if member is not None)

    def _end(self) -> _End:
        start = max(0, self._size - _SEARCH)
        tail = self._at(start, self._size - start)
        good: list[_End] = []
        reason: FormatError | None = None
        at = tail.rfind(r.END_SIGNATURE)
        while at != -1:
            try:
                good.append(self._end_at(start + at, tail[at : at + r.END.size]))
            except FormatError as exc:
                reason = reason or exc
            at = tail.rfind(r.END_SIGNATURE, 0, at)
        if len(good) > 1:
            raise self._broken("it has two directories, and readers disagree about which of them counts")
        if good:
            return good[0]
        raise reason or FormatError(
            f"{self._owner} is no complete zip archive: the directory at its end is missing",
            hint="it was probably cut short; fetch or pack it again",
        )

    def _end_at(self, position: int, raw: bytes) -> _End:
        if len(raw) < r.END.size:
            raise self._broken("its end record is cut short")
        _, disk, cd_disk, on_disk, count, size, offset, comment = r.END.unpack(raw)
        if position + r.END.size + comment > self._size:
            raise self._broken("its comment is cut short")
        border = position
        fields: tuple[int, ...] = (disk, cd_disk, on_disk, count, size, offset)
        limits = (r.MAX16, r.MAX16, r.MAX16, r.MAX16, r.MAX32, r.MAX32)
        if position >= r.LOCATOR.size:
            signature, _, border64, _ = r.LOCATOR.unpack(self._at(position - r.LOCATOR.size, r.LOCATOR.size))
            if signature == r.LOCATOR_SIGNATURE:
                wide = self._end64(border64, position - r.LOCATOR.size)
                if any(small not in (big, top) for small, big, top in zip(fields, wide, limits, strict=True)):
                    raise self._broken("its two end records disagree")
                fields, border = wide, border64
        disk, cd_disk, on_disk, count, size, offset = fields
        if disk or cd_disk or on_disk != count:
            raise FormatError(
                f"{self._owner} is one part of a split zip archive", hint="join the parts into one archive first"
            )
        if offset + size < border:
            raise self._prefixed()
        if offset + size > border or count * r.CENTRAL.size > size:
            raise self._broken("its directory is not where its end record says")
        return _End(offset, size, count)

    def _end64(self, offset: int, border: int) -> tuple[int, ...]:
        if offset + r.END64.size <= border:
            signature, rest, _, _, *fields = r.END64.unpack(self._at(offset, r.END64.size))
            if signature == r.END64_SIGNATURE and offset + 12 + rest == border:
                return tuple(fields)
        raise self._broken("its zip64 end record is not where its locator says")

    def _central(self, end: _End) -> list[_Central]:
        if end.size > self._limits.directory:
            raise LimitError(
                f"the directory of {self._owner} has {end.size} bytes, more than the {self._limits.directory} accepted"
            )
        if end.entries > self._limits.entries:
            raise LimitError(f"{self._owner} has {end.entries} members, more than the {self._limits.entries} accepted")
        data = self._at(end.offset, end.size)
        entries = []
        at = 0
        for _ in range(end.entries):
            entry, at = self._central_entry(data, at)
            entries.append(entry)
        if at != len(data):
            raise self._broken("its directory has more in it than its members")
        return entries

    def _central_entry(self, data: bytes, at: int) -> tuple[_Central, int]:
        if at + r.CENTRAL.size > len(data):
            raise self._broken("its directory is cut short")
        signature, *fields = r.CENTRAL.unpack_from(data, at)
        *head, compressed, size, name_length, extra_length, comment_length, disk, internal, external, offset = fields
        at += r.CENTRAL.size
        ends = (at + name_length, at + name_length + extra_length, at + name_length + extra_length + comment_length)
        if signature != r.CENTRAL_SIGNATURE or ends[2] > len(data):
            raise self._broken("its directory is damaged")
        name, extra, comment = data[at : ends[0]], data[ends[0] : ends[1]], data[ends[1] : ends[2]]
        wide = [(size, r.MAX32, 8), (compressed, r.MAX32, 8), (offset, r.MAX32, 8), (disk, r.MAX16, 4)]
        size, compressed, offset, disk = self._zip64(wide, extra, name)
        if disk:
            raise self._broken(f"the member {_show(name)} lies on another disk")
        self._check_kind(name, flags=head[3], method=head[4], sizes=(compressed, size))
        return _Central(name, (*head, internal, external), extra, comment, compressed, size, offset), ends[2]

    def _zip64(self, fields: Sequence[tuple[int, int, int]], extra: bytes, name: bytes) -> list[int]:
        """The real values: those at their maximum stand in the zip64 field, in this order (APPNOTE 4.5.3)."""
        if not any(value == top for value, top, _ in fields):
            return [value for value, _, _ in fields]
        block = next((body for kind, body in self._extra(extra, name) if kind == r.ZIP64_EXTRA), b"")
        values = []
        for value, top, width in fields:
            if value == top:
                if len(block) < width:
                    raise self._broken(f"the zip64 field of {_show(name)} is missing or cut short")
                value, block = int.from_bytes(block[:width], "little"), block[width:]
            values.append(value)
        return values

    def _extra(self, extra: bytes, name: bytes) -> Iterable[tuple[int, bytes]]:
        at = 0
        while at + r.EXTRA.size <= len(extra):
            kind, length = r.EXTRA.unpack_from(extra, at)
            at += r.EXTRA.size
            if at + length > len(extra):
                raise self._broken(f"an extra field of {_show(name)} is cut short")
            yield kind, extra[at : at + length]
            at += length

    def _check_kind(self, name: bytes, *, flags: int, method: int, sizes: tuple[int, int]) -> None:
        if flags & r.FLAGS_ENCRYPTED or method == 99:
            raise FormatError(
                f"{self._owner}: the member {_show(name)} is encrypted", hint="pack the model without a password"
            )
        if method not in (r.STORED, r.DEFLATED, r.ZSTD) or flags & r.FLAG_PATCH:
            label = _METHODS.get(method, "unknown")
            raise FormatError(
                f"{self._owner}: the member {_show(name)} is compressed by method {method} ({label})",
                hint="pack it again with Stored, Deflate or zstd",
            )
        if method == r.STORED and sizes[0] != sizes[1]:
            raise self._broken(f"the member {_show(name)} is stored, but has two different sizes")

    def _member(self, entry: _Central, border: int) -> Member:
        name = entry.raw_name
        at = entry.header_offset
        if at + r.LOCAL.size > border:
            raise self._broken(f"the member {_show(name)} lies outside of the members")
        signature, _, flags, method, _, _, crc, compressed, size, name_length, extra_length = r.LOCAL.unpack(
            self._at(at, r.LOCAL.size)
        )
        rest = self._at(at + r.LOCAL.size, min(name_length + extra_length, border - at - r.LOCAL.size))
        if signature != r.LOCAL_SIGNATURE or len(rest) != name_length + extra_length:
            raise self._broken(f"there is no member {_show(name)} where the directory says")
        create_version, create_system, extract_version, cd_flags, cd_method, time, date, cd_crc = entry.fields[:8]
        extra = rest[name_length:]
        same = rest[:name_length] == name and method == cd_method and not (flags ^ cd_flags) & r.FLAGS_ENCRYPTED
        if same and not flags & r.FLAG_DESCRIPTOR:
            size, compressed = self._zip64([(size, r.MAX32, 8), (compressed, r.MAX32, 8)], extra, name)
            same = (crc, compressed, size) == (cd_crc, entry.compressed_size, entry.size)
        if not same:
            raise self._broken(f"the directory and the header of the member {_show(name)} disagree")
        return Member(
            name=self._decode(name, cd_flags, entry.extra),
            raw_name=name,
            create_version=create_version,
            create_system=create_system,
            extract_version=extract_version,
            flags=cd_flags,
            method=method,
            time=time,
            date=date,
            crc=cd_crc,
            compressed_size=entry.compressed_size,
            size=entry.size,
            internal_attr=entry.fields[8],
            external_attr=entry.fields[9],
            extra=entry.extra,
            local_extra=extra,
            comment=entry.comment,
            header_offset=at,
            data_offset=at + r.LOCAL.size + name_length + extra_length,
        )

    def _decode(self, raw: bytes, flags: int, extra: bytes) -> str:
        """UTF-8 whatever the flag says, as real writers leave it unset; the old DOS code page only where it must be."""
        other = None
        for kind, body in self._extra(extra, raw):
            if kind == r.UNICODE_PATH_EXTRA and body[1:5] == zlib.crc32(raw).to_bytes(4, "little"):
                other = body[5:]
        try:
            name = raw.decode()
            if other is None or other == raw:
                return name
        except UnicodeDecodeError:
            if not flags & r.FLAG_UTF8:
                return _text(other) or raw.decode("cp437")
        raise self._broken(f"the member {_show(raw)} has two names, or one that is not the UTF-8 it claims to be")

    def _at(self, offset: int, length: int) -> bytes:
        self._file.seek(offset)
        data = self._file.read(length)
        if len(data) != length:
            raise self._broken("it is cut short")
        return data

    def _broken(self, reason: str) -> FormatError:
        return FormatError(f"{self._owner} is a damaged zip archive: {reason}", hint="fetch or pack it again")

    def _prefixed(self) -> FormatError:
        return FormatError(
            f"{self._owner} has data before the zip archive", hint="remove what is in front of it, or fetch it again"
        )


def _text(raw: bytes | None) -> str | None:
    try:
        return raw.decode() if raw else None
    except UnicodeDecodeError:
        return None


def _show(raw: bytes) -> str:
    return show(raw.decode("utf-8", "replace"))
