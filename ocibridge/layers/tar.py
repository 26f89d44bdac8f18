# SPDX-License-Identifier: Apache-2.0
"""Reproducible tar, both directions (POSIX.1-2017, pax, "ustar Interchange Format" and "pax Extended Header").

Writing follows seed 001, "Reproducibility": constant mtime, owner and mode, no names of users, ustar, and a pax header
only where ustar cannot say it: a name that does not fit or is not ASCII, a file of 8 GiB or more. The bytes are made
here and not by the standard library, whose choices differ between Python versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from ..errors import FormatError, IntegrityError, LimitError
from ..io.content import BytesContent, Content, Loadable
from ..io.readers import ForwardingReader, ReadAheadReader, Reader, byte_view, read_full
from ..paths import show
from ..settings import DEFAULT_LIMITS, Limits

BLOCK = 512
MODE = 0o644
END = bytes(2 * BLOCK)
_USTAR_SIZE = 8**11
_OWNER = b"%07o\0%07o\0%07o\0" % (MODE, 0, 0)
_TIME = b"\0%011o\0" % 0
_MAGIC = bytes(100) + b"ustar\00000" + bytes(64) + b"%07o\0%07o\0" % (0, 0)
_HEADER = Struct(f"100s{len(_OWNER)}s11s{len(_TIME)}s8ss{len(_MAGIC)}s155s12x")
"""Name, owner, size, time, checksum, kind, magic, prefix."""
_CONSTANT = sum(_OWNER) + sum(_TIME) + sum(b" " * 8) + sum(_MAGIC)
"""What the bytes that are the same in every header add to its checksum."""
_MAX_TRAILER = 1024 * 1024

REGULAR, HARD_LINK, SYMLINK, DIRECTORY = b"0", b"1", b"2", b"5"
_DEVICES = (b"3", b"4", b"6")
"""Character and block devices, and pipes."""


def tar_parts(files: Sequence[tuple[str, Content]]) -> list[Content]:
    """The parts of a tar archive, to be read one after the other.

    Args:
        files: Paths (checked) and contents; the archive holds them in lexicographic order of their UTF-8 paths.

    Returns:
        For each file what comes before it (see `tar_gap`) and its content; then the end of the archive.
    """
    parts: list[Content] = []
    before = 0
    for path, content in sorted(files, key=tar_order):
        size = content.size
        parts += (_Gap(before, path, size), content)
        before = size
    parts.append(_Gap(before))
    return parts


def tar_order(file: tuple[str, object]) -> bytes:
    """The key by which files are sorted in an archive."""
    return file[0].encode()


class _Gap(Loadable):
    """The bytes of `tar_gap`, computed when they are read: an archive may have very many gaps."""

    __slots__ = ("_between", "size")

    def __init__(self, before: int, path: str | None = None, size: int = 0) -> None:
        self._between = before, path, size
        if path is not None and _is_plain(path, size):
            self.size = -before % BLOCK + BLOCK
        else:
            self.size = len(self._made())

    def _made(self) -> bytes:
        return tar_gap(*self._between)

    def open(self, offset: int = 0) -> Reader:
        return BytesContent(self._made()).open(offset)

    def load(self, target: memoryview) -> bool:
        target[:] = self._made()
        return True


def tar_gap(before: int, path: str | None, size: int = 0) -> bytes:
    """The bytes between two files of an archive: padding, and the header of the next file or the end of the archive.

    Args:
        before: Bytes of the content before it; 0 at the start.
        path: Path of the next file; None at the end.
        size: Bytes of the next file.
    """
    return bytes(-before % BLOCK) + (END if path is None else tar_header(path, size))


@lru_cache(1)  # whoever compares an archive with one of ours asks for each twice
def tar_header(path: str, size: int) -> bytes:
    """The header of a regular file: one block, or three and more where pax has to help."""
    if _is_plain(path, size):
        return _ustar(("", path), size, REGULAR)
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


def _is_plain(path: str, size: int) -> bool:
    """Return whether one block does, without a prefix."""
    return len(path) <= 100 and size < _USTAR_SIZE and path.isascii()


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
    start, length, end = name.encode(), b"%011o" % size, prefix.encode()
    total = _CONSTANT + sum(start) + sum(length) + kind[0] + sum(end)
    return _HEADER.pack(start, _OWNER, length, _TIME, b"%06o\0 " % total, kind, _MAGIC, end)


def _pax_record(key: str, value: str) -> bytes:
    rest = f" {key}={value}\n".encode()
    length = len(rest) + 1
    while len(str(length)) + len(rest) != length:
        length = len(str(length)) + len(rest)
    return str(length).encode() + rest


class TarEntry(NamedTuple):
    """One entry of a tar stream.

    Attributes:
        path: Its name, as found, without a leading `./` and a trailing `/`.
        size: Length of its content in bytes.
        kind: Type flag: `REGULAR`, `HARD_LINK`, `SYMLINK` or `DIRECTORY`; others only where the reader is lenient.
        link: Target of a link.
        mode: Permission bits, where the reader is lenient.
        reader: Its content; valid until the next entry is asked for.
    """

    path: str
    size: int
    kind: bytes
    link: str
    mode: int
    reader: Reader


def read_tar(
    reader: Reader,
    owner: str,
    limits: Limits = DEFAULT_LIMITS,
    *,
    ahead: int = 0,
    gaps: bytearray | None = None,
    lenient: bool = False,
) -> Iterator[TarEntry]:
    """Read a tar stream entry by entry, in bounded memory, to the very end of `reader`.

    ustar, pax and GNU long names are understood. What is not read of an entry is passed over.

    Args:
        reader: The stream; not closed. One that can pass over bytes without reading them is asked to.
        owner: Description of the source for messages.
        limits: `entries` and `tar_header` are used.
        ahead: Bytes that may be read before they are asked for; archives of small files are read much faster so.
        gaps: Gets all bytes that are no content, as they pass, for whoever takes them out after each entry.
        lenient: Whether to take what container runtimes take in a layer: devices, names that are not UTF-8, an end
            without blocks of zeros, and anything after these, which then is not read.

    Raises:
        FormatError: the stream is no tar archive, or has an entry that is no file, folder or link.
        IntegrityError: it ends too early.
        LimitError: it has too many entries, or an extension header that is too large.
    """
    window = ReadAheadReader(reader, ahead)
    header = _Header(owner, lenient)
    padding = 0
    for count in range(limits.entries + 1):
        block = _read(window, padding + BLOCK, gaps)
        if lenient and len(block) <= padding:
            return
        block = _whole(block, padding + BLOCK, owner)[padding:]
        padding = 0
        found = None if header.extended else _simple(block)
        if found is None:
            if not any(block):
                if not lenient:
                    _finish(window, owner, gaps)
                return
            if not is_header(block):
                where = f"the header of entry {count + 1}"
                raise FormatError(f"{owner} is not a tar archive ({where} has a wrong checksum)")
            kind, size = block[156:157], header.number(block[124:136])
            if kind in b"xgLK":
                if size > limits.tar_header:
                    raise LimitError(
                        f"{owner}: an extension header has {size} bytes, more than the {limits.tar_header}"
                    )
                length = size + -size % BLOCK
                header.extend(kind, _whole(_read(window, length, gaps), length, owner)[:size])
                continue
            found = header.fields(block, kind, size)
        path, size, kind, link, mode = found
        content = _EntryReader(window, size, owner, path)
        yield TarEntry(path.removeprefix("./").rstrip("/"), size, kind, link, mode, content)
        content.skip()
        padding = -size % BLOCK
    raise LimitError(f"{owner} has more than {limits.entries} entries")


_Fields = tuple[str, int, bytes, str, int]
"""Path, size, kind, link and mode of an entry."""


def _simple(block: bytes) -> _Fields | None:
    """Parse a header that equals the output of `tar_header`, as nearly all do; None for any other header."""
    try:
        path, size = block[: block.find(0)].decode("ascii"), int(block[124:135], 8)
    except ValueError:
        return None
    return (path, size, REGULAR, "", MODE) if path and size >= 0 and block == tar_header(path, size) else None


def is_header(block: bytes) -> bool:
    """Return whether the checksum of a header is right."""
    stored = block[148:156].strip(b" \0")
    if not stored or stored.strip(b"01234567"):
        return False
    return int(stored, 8) == sum(block[:148]) + 8 * 32 + sum(block[156:])


class _Header:
    """Reads the headers of an archive, and remembers what extension headers say about the next ones."""

    def __init__(self, owner: str, lenient: bool) -> None:
        self._owner = owner
        self._lenient = lenient
        self._shared: dict[str, str] = {}
        self._own: dict[str, str] = {}

    @property
    def extended(self) -> bool:
        """True if an extension header says something about the next entry."""
        return bool(self._own or self._shared)

    def extend(self, kind: bytes, body: bytes) -> None:
        """Take in an extension header."""
        if kind == b"g":
            self._shared |= self._pax(body)
        elif kind == b"x":
            self._own |= self._pax(body)
        else:
            self._own["path" if kind == b"L" else "linkpath"] = self._text(body.rstrip(b"\0"))

    def fields(self, block: bytes, kind: bytes, size: int) -> _Fields:
        """Parse the fields of an entry from its header and the extension headers before it."""
        fields, self._own = self._shared | self._own, {}
        if any(key.startswith("GNU.sparse") for key in fields):
            raise FormatError(f"{self._owner} has a sparse file", hint="pack it with a tar that writes plain files")
        if "size" in fields:
            if not (fields["size"].isascii() and fields["size"].isdigit() and len(fields["size"]) < 20):
                raise FormatError(f"{self._owner} has a pax size that is no number")
            size = int(fields["size"])
        path = fields.get("path") or self._name(block)
        kind = REGULAR if kind in b"\0" + REGULAR + b"7" else kind
        if kind not in (REGULAR, HARD_LINK, SYMLINK, DIRECTORY) and not (self._lenient and kind in _DEVICES):
            raise FormatError(
                f"{self._owner}: the entry {show(path)} is neither a file, a folder nor a link",
                hint="a model holds no devices, pipes or sparse files",
            )
        link = fields.get("linkpath") or self._text(block[157:257].split(b"\0", 1)[0])
        mode = self.number(block[100:108]) & 0o7777 if self._lenient else MODE
        return path, size if kind == REGULAR else 0, kind, link, mode

    def number(self, field: bytes) -> int:
        """A numeric field, octal or in base 256."""
        if field[0] & 0x80:
            value = int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
            if field[0] & 0x40 or value >= 1 << 63:
                raise FormatError(f"{self._owner} has a tar entry with an impossible size")
            return value
        digits = field.split(b"\0", 1)[0].strip(b" ")
        if digits.strip(b"01234567"):
            raise FormatError(f"{self._owner} has a tar entry whose size is no number")
        return int(digits or b"0", 8)

    def _name(self, block: bytes) -> str:
        name = block[:100].split(b"\0", 1)[0]
        if block[257:263] == b"ustar\0":
            prefix = block[345:500].split(b"\0", 1)[0]
            name = prefix + b"/" + name if prefix else name
        return self._text(name)

    def _text(self, data: bytes) -> str:
        try:
            return data.decode(errors="replace" if self._lenient else "strict")
        except UnicodeDecodeError:
            raise FormatError(f"{self._owner} has a tar entry whose name is not UTF-8") from None

    def _pax(self, body: bytes) -> dict[str, str]:
        found: dict[str, str] = {}
        while body:
            length, space, _ = body[:24].partition(b" ")
            end = int(length) if length.isdigit() else 0
            record = body[len(length) + 1 : end]
            key, equals, value = record[:-1].partition(b"=")
            if not (space and equals and record[-1:] == b"\n" and end <= len(body)):
                raise FormatError(f"{self._owner} has a malformed pax header")
            if b"\0" in value:
                raise FormatError(f"{self._owner} has a pax header with a NUL in it")
            # Only the records that are used have to be UTF-8: extended attributes, for one, need not be.
            if key in (b"path", b"linkpath", b"size") or key.startswith(b"GNU.sparse"):
                found[self._text(key)] = self._text(value)
            body = body[end:]
        return found


def _read(window: ReadAheadReader, size: int, gaps: bytearray | None) -> bytes:
    """The next `size` bytes, or all before the end."""
    found = window.read_view(size)
    if found is None:
        buffer = memoryview(bytearray(size))
        found = buffer[: read_full(window, buffer)]
    if gaps is not None:
        gaps += found
    return bytes(found)


def _whole(data: bytes, size: int, owner: str) -> bytes:
    if len(data) < size:
        raise IntegrityError(f"{owner} ends in the middle of a tar archive")
    return data


def _finish(reader: Reader, owner: str, gaps: bytearray | None) -> None:
    """Read what follows the first zero block to the end, so that whoever verifies the stream sees all of it."""
    buffer = memoryview(bytearray(64 * 1024))
    total = 0
    while count := read_full(reader, buffer):
        total += count
        if any(buffer[:count]) or total > _MAX_TRAILER:
            raise FormatError(f"{owner} has data behind the end of its tar archive")
        if gaps is not None:
            gaps += buffer[:count]


class _EntryReader(ForwardingReader):
    closes_source = False

    def __init__(self, window: ReadAheadReader, size: int, owner: str, path: str) -> None:
        self.source: ReadAheadReader = window
        self._left = size
        self._owner = owner
        self._path = path

    def readinto(self, buffer: object, /) -> int:
        target = byte_view(buffer)[: self._left]
        if not target:
            return 0
        count = self.source.readinto(target)
        if not count:
            raise self._cut()
        self._left -= count
        return count

    def buffered_rest(self) -> memoryview | None:
        found = self.source.read_view(self._left)
        if found is not None:
            self._left -= len(found)
            if self._left:
                raise self._cut()
        return found

    def skip(self) -> None:
        self._left -= self.source.skip(self._left)
        if self._left:
            raise self._cut()

    def _cut(self) -> IntegrityError:
        return IntegrityError(f"{self._owner}: {show(self._path)} ends after the end of its layer")
