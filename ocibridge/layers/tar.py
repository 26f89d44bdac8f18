# SPDX-License-Identifier: Apache-2.0
"""Reproducible tar, both directions (POSIX.1-2017, pax, "ustar Interchange Format" and "pax Extended Header").

Writing follows seed 001, "Reproducibility": constant mtime, owner and mode, no names of users, ustar, and a pax header
only where ustar cannot say it: a name that does not fit or is not ASCII, a file of 8 GiB or more. The bytes are made
here and not by the standard library, whose choices differ between Python versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..content import BytesContent, Content, Passing, Reader, fill, writable
from ..errors import FormatError, IntegrityError, LimitError
from ..paths import show
from ..settings import DEFAULT_LIMITS, READ_SIZE, Limits

BLOCK = 512
MODE = 0o644
END = bytes(2 * BLOCK)
_USTAR_SIZE = 8**11
_MAX_TRAILER = 1024 * 1024

REGULAR, HARD_LINK, SYMLINK, DIRECTORY = b"0", b"1", b"2", b"5"


def tar_parts(files: Sequence[tuple[str, Content]]) -> list[Content]:
    """The parts of a tar archive, to be read one after the other.

    Args:
        files: Paths (checked) and contents; the archive holds them in lexicographic order of their UTF-8 paths.

    Returns:
        For each file its header, its content and its padding (where it needs one), then the end of the archive.
    """
    parts: list[Content] = []
    for path, content in sorted(files, key=lambda item: item[0].encode()):
        parts.append(BytesContent(tar_header(path, content.size)))
        parts.append(content)
        if rest := -content.size % BLOCK:
            parts.append(BytesContent(bytes(rest)))
    parts.append(BytesContent(END))
    return parts


def tar_header(path: str, size: int) -> bytes:
    """The header of a regular file: one block, or three and more where pax has to help."""
    records = {}
    place = _split(path)
    if place is None:
        records["path"] = path
        place = ("", path.encode("ascii", "replace").decode()[:100])
    if size >= _USTAR_SIZE:
        records["size"] = str(size)
    main = _ustar(place, 0 if "size" in records else size, REGULAR)
    if not records:
        return main
    body = b"".join(_pax_record(key, value) for key, value in sorted(records.items()))
    return _ustar(("", "././@PaxHeader"), len(body), b"x") + body + bytes(-len(body) % BLOCK) + main


def _split(path: str) -> tuple[str, str] | None:
    """Prefix and name of a path as ustar holds them, or None where it cannot."""
    if not path.isascii():
        return None
    if len(path) <= 100:
        return "", path
    cut = path.find("/", len(path) - 101)
    return (path[:cut], path[cut + 1 :]) if 0 < cut <= 155 and cut + 1 < len(path) else None


def _ustar(place: tuple[str, str], size: int, kind: bytes) -> bytes:
    prefix, name = place
    fields = [
        name.encode().ljust(100, b"\0"),
        b"%07o\0" % MODE,
        b"%07o\0" % 0,
        b"%07o\0" % 0,
        b"%011o\0" % size,
        b"%011o\0" % 0,
        b" " * 8,
        kind,
        bytes(100),
        b"ustar\00000",
        bytes(64),
        b"%07o\0" % 0,
        b"%07o\0" % 0,
        prefix.encode().ljust(155, b"\0"),
        bytes(12),
    ]
    fields[6] = b"%06o\0 " % sum(b"".join(fields))
    return b"".join(fields)


def _pax_record(key: str, value: str) -> bytes:
    rest = f" {key}={value}\n".encode()
    length = len(rest) + 1
    while len(str(length)) + len(rest) != length:
        length = len(str(length)) + len(rest)
    return str(length).encode() + rest


@dataclass(frozen=True, slots=True)
class TarEntry:
    """One entry of a tar stream.

    Attributes:
        path: Its name, as found, without a leading `./` and a trailing `/`.
        size: Length of its content in bytes.
        kind: Type flag: `REGULAR`, `HARD_LINK`, `SYMLINK` or `DIRECTORY`.
        link: Target of a link.
        reader: Its content; valid until the next entry is asked for.
    """

    path: str
    size: int
    kind: bytes
    link: str
    reader: Reader


def read_tar(reader: Reader, owner: str, limits: Limits = DEFAULT_LIMITS) -> Iterator[TarEntry]:
    """Read a tar stream entry by entry, in bounded memory, to the very end of `reader`.

    ustar, pax and GNU long names are understood. What is not read of an entry is passed over.

    Args:
        reader: The stream; not closed.
        owner: What it is, for messages.
        limits: `entries` and `tar_header` are used.

    Raises:
        FormatError: the stream is no tar archive, or has an entry that is no file, folder or link.
        IntegrityError: it ends too early.
        LimitError: it has too many entries, or an extension header that is too large.
    """
    shared: dict[str, str] = {}
    own: dict[str, str] = {}
    for count in range(limits.entries + 1):
        block = _take(reader, BLOCK, owner)
        if not any(block):
            _finish(reader, owner)
            return
        if not _checksum_ok(block):
            raise FormatError(f"{owner} is not a tar archive (the header of entry {count + 1} has a wrong checksum)")
        kind = block[156:157]
        size = _number(block[124:136], owner)
        if kind in b"xgLK":
            if size > limits.tar_header:
                raise LimitError(f"{owner}: an extension header has {size} bytes, more than the {limits.tar_header}")
            body = _take(reader, size + -size % BLOCK, owner)[:size]
            if kind == b"g":
                shared |= _pax(body, owner)
            elif kind == b"x":
                own |= _pax(body, owner)
            else:
                own["path" if kind == b"L" else "linkpath"] = _text(body.rstrip(b"\0"), owner)
            continue
        fields, own = shared | own, {}
        yield from _entry(reader, block, kind, size, fields, owner)
    raise LimitError(f"{owner} has more than {limits.entries} entries")


def _entry(
    reader: Reader, block: bytes, kind: bytes, size: int, fields: dict[str, str], owner: str
) -> Iterator[TarEntry]:
    if any(key.startswith("GNU.sparse") for key in fields):
        raise FormatError(f"{owner} has a sparse file", hint="pack it with a tar that writes plain files")
    if "size" in fields:
        if not (fields["size"].isascii() and fields["size"].isdigit() and len(fields["size"]) < 20):
            raise FormatError(f"{owner} has a pax size that is no number")
        size = int(fields["size"])
    path = fields.get("path") or _name(block, owner)
    kind = REGULAR if kind in b"\0" + REGULAR + b"7" else kind
    if kind not in (REGULAR, HARD_LINK, SYMLINK, DIRECTORY):
        raise FormatError(
            f"{owner}: the entry {show(path)} is neither a file, a folder nor a link",
            hint="a model holds no devices, pipes or sparse files",
        )
    if kind != REGULAR:
        size = 0
    link = fields.get("linkpath") or _text(block[157:257].split(b"\0", 1)[0], owner)
    body = _EntryReader(reader, size, f"{owner}: {show(path)}")
    yield TarEntry(path.removeprefix("./").rstrip("/"), size, kind, link, body)
    body.skip()
    _take(reader, -size % BLOCK, owner)


def _checksum_ok(block: bytes) -> bool:
    stored = block[148:156].strip(b" \0")
    if not stored or stored.strip(b"01234567"):
        return False
    return int(stored, 8) == sum(block[:148]) + 8 * 32 + sum(block[156:])


def _number(field: bytes, owner: str) -> int:
    if field[0] & 0x80:
        value = int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
        if field[0] & 0x40 or value >= 1 << 63:
            raise FormatError(f"{owner} has a tar entry with an impossible size")
        return value
    digits = field.split(b"\0", 1)[0].strip(b" ")
    if digits.strip(b"01234567"):
        raise FormatError(f"{owner} has a tar entry whose size is no number")
    return int(digits or b"0", 8)


def _name(block: bytes, owner: str) -> str:
    name = block[:100].split(b"\0", 1)[0]
    if block[257:263] == b"ustar\0":
        prefix = block[345:500].split(b"\0", 1)[0]
        name = prefix + b"/" + name if prefix else name
    return _text(name, owner)


def _text(data: bytes, owner: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise FormatError(f"{owner} has a tar entry whose name is not UTF-8") from None


def _pax(body: bytes, owner: str) -> dict[str, str]:
    found: dict[str, str] = {}
    while body:
        length, space, _ = body[:24].partition(b" ")
        end = int(length) if length.isdigit() else 0
        record = body[len(length) + 1 : end]
        key, equals, value = record[:-1].partition(b"=")
        if not (space and equals and record[-1:] == b"\n" and end <= len(body)):
            raise FormatError(f"{owner} has a malformed pax header")
        if b"\0" in value:
            raise FormatError(f"{owner} has a pax header with a NUL in it")
        # Only the records that are used have to be UTF-8: extended attributes, for one, need not be.
        if key in (b"path", b"linkpath", b"size") or key.startswith(b"GNU.sparse"):
            found[_text(key, owner)] = _text(value, owner)
        body = body[end:]
    return found


def _take(reader: Reader, size: int, owner: str) -> bytes:
    buffer = bytearray(size)
    if fill(reader, memoryview(buffer)) < size:
        raise IntegrityError(f"{owner} ends in the middle of a tar archive")
    return bytes(buffer)


def _finish(reader: Reader, owner: str) -> None:
    """Read what follows the first zero block to the end, so that whoever verifies the stream sees all of it."""
    buffer = memoryview(bytearray(64 * 1024))
    total = 0
    while count := fill(reader, buffer):
        total += count
        if any(buffer[:count]) or total > _MAX_TRAILER:
            raise FormatError(f"{owner} has data behind the end of its tar archive")


class _EntryReader(Passing):
    def __init__(self, reader: Reader, size: int, label: str) -> None:
        self.source = reader
        self._left = size
        self._label = label

    def readinto(self, buffer: object, /) -> int:
        target = writable(buffer)[: self._left]
        if not target:
            return 0
        count = self.source.readinto(target) or 0
        if not count:
            raise IntegrityError(f"{self._label} ends after the end of its layer")
        self._left -= count
        return int(count)

    def skip(self) -> None:
        buffer = memoryview(bytearray(min(self._left, READ_SIZE)))
        while self._left:
            self.readinto(buffer)
