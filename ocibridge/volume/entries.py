# SPDX-License-Identifier: Apache-2.0
"""Entries of a layer, read from its tar headers, if possible without the bytes of the files."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import IO, Literal, cast

from ..errors import FormatError, IntegrityError, LimitError
from ..io.content import ForwardingReader, Reader, fill, writable
from ..layers.encoding import Encoding, decompress
from ..oci import Descriptor
from ..settings import READ_SIZE, MiB
from ..stores.base import Store

SMALL = 64 * MiB
"""Layers of less than this many bytes are read whole without being asked to."""

_BLOCK = tarfile.BLOCKSIZE
_MOST_UNPACKED = 16 * SMALL
_NEAR = MiB
_MOST_JUMPS = 2000


@dataclass(frozen=True, slots=True)
class LayerEntry:
    """One entry of a layer.

    Attributes:
        path: The name in the tar header.
        kind: `file`, `folder`, `link` (a symbolic one), `hardlink`, or `device` for everything else.
        size: Length of a file in bytes.
        link: Target of a link.
        mode: Permission bits.
        sha256: Hex sha256 of the bytes of a file, if known.
    """

    path: str
    kind: Literal["file", "folder", "link", "hardlink", "device"] = "file"
    size: int = 0
    link: str = ""
    mode: int = 0o644
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class LayerContents:
    """Content of a layer.

    Attributes:
        entries: The entries; None if they were not read.
        diff_id: Digest of the uncompressed bytes, if they were read.
        archive: False if the layer is no tar archive.
        unread: The reason why the entries were not read.
    """

    entries: tuple[LayerEntry, ...] | None = None
    diff_id: str | None = None
    archive: bool = True
    unread: str | None = None


def encoding_of(store: Store, descriptor: Descriptor) -> Encoding:
    """Detect the encoding of a blob from its first bytes, as media types can be wrong; `RAW` if it is no archive."""
    with store.resume_blob(descriptor, 0) as reader:
        buffer = memoryview(bytearray(min(_BLOCK, descriptor.size)))
        head = bytes(buffer[: fill(reader, buffer)])
    if head[:2] == b"\x1f\x8b":
        return Encoding.TAR_GZIP
    if head[:4] == b"\x28\xb5\x2f\xfd":
        return Encoding.TAR_ZSTD
    if len(head) == _BLOCK:
        try:
            tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            return Encoding.TAR
        except tarfile.TarError:
            return Encoding.RAW
        return Encoding.TAR
    return Encoding.RAW


def contents(store: Store, descriptor: Descriptor, *, whole: bool = False) -> LayerContents:
    """Read the entries of a layer.

    A plain tar archive is read header by header with ranged requests; a compressed one has to be read whole, which
    happens below `SMALL` bytes only.

    Args:
        store: The store of the layer.
        descriptor: The layer.
        whole: Read and verify every byte, whatever the size.

    Raises:
        NotFound: the blob does not exist.
        IntegrityError: it was read whole, and does not match its digest.
    """
    encoding = encoding_of(store, descriptor)
    if encoding is Encoding.RAW:
        return LayerContents(archive=False)
    owner = f"the layer {descriptor.digest}"
    try:
        if whole or descriptor.size < SMALL:
            return _stream(store, descriptor, encoding, owner, None if whole else _MOST_UNPACKED)
        if encoding is Encoding.TAR:
            return _walk(store, descriptor, owner)
    except LimitError as exc:
        return LayerContents(unread=exc.message)
    except (FormatError, tarfile.TarError):
        return LayerContents(archive=False)
    return LayerContents(unread="it is compressed, so that it had to be read whole")


def _stream(store: Store, descriptor: Descriptor, encoding: Encoding, owner: str, limit: int | None) -> LayerContents:
    with store.open_blob(descriptor) as blob:
        source = blob if encoding is Encoding.TAR else decompress(blob, encoding, owner, store.limits)
        hashed = _Hashed(source, limit, owner)
        window = _Window(lambda _: hashed, owner, store.limits.tar_header, far=None)
        try:
            found = _entries(window, owner, store.limits.entries, hash_files=True)
            _drain(hashed)  # the digest of a layer is that of all its bytes
        except IntegrityError as exc:
            _drain(blob)  # an error where the store gives other bytes; else the blob was made like that
            raise FormatError(exc.message) from exc
        _drain(blob)
    return LayerContents(found, "sha256:" + hashed.digest.hexdigest())


def _drain(reader: Reader) -> None:
    buffer = memoryview(bytearray(READ_SIZE))
    while reader.readinto(buffer):
        pass


def _walk(store: Store, descriptor: Descriptor, owner: str) -> LayerContents:
    window = _Window(lambda at: store.resume_blob(descriptor, at), owner, store.limits.tar_header, far=_NEAR)
    try:
        return LayerContents(_entries(window, owner, store.limits.entries, hash_files=False))
    finally:
        window.close()


def _entries(window: _Window, owner: str, most: int, *, hash_files: bool) -> tuple[LayerEntry, ...]:
    found: list[LayerEntry] = []
    with tarfile.open(fileobj=cast(IO[bytes], window), mode="r:", errors="surrogateescape") as archive:
        while (member := archive.next()) is not None:
            archive.members.clear()  # type: ignore[attr-defined]  # it would keep them all
            if len(found) == most:
                raise LimitError(f"{owner} has more than {most} entries")
            entry = _entry(member)
            if hash_files and entry.kind == "file" and (reader := archive.extractfile(member)) is not None:
                entry = replace(entry, sha256=_sha256(reader))
            found.append(entry)
        if any(window.last):  # where a header is damaged, the library takes that for the end
            raise FormatError(f"{owner} is not a tar archive")
    return tuple(found)


def _entry(member: tarfile.TarInfo) -> LayerEntry:
    kind: Literal["file", "folder", "link", "hardlink", "device"] = "device"
    if member.isdir():
        kind = "folder"
    elif member.issym():
        kind = "link"
    elif member.islnk():
        kind = "hardlink"
    elif member.isreg():
        kind = "file"
    size = member.size if kind == "file" else 0
    return LayerEntry(_text(member.name), kind, size, _text(member.linkname), member.mode)


def _text(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _sha256(reader: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while chunk := reader.read(READ_SIZE):
        digest.update(chunk)
    return digest.hexdigest()


class _Hashed(ForwardingReader):
    """Hashes what passes, and ends at a limit: a few bytes may become very many."""

    def __init__(self, source: Reader, limit: int | None, owner: str) -> None:
        self.source = source
        self.digest = hashlib.sha256()
        self._limit = limit
        self._count = 0
        self._owner = owner

    def readinto(self, buffer: object, /) -> int:
        target = writable(buffer)
        count = self.source.readinto(target) or 0
        self.digest.update(target[:count])
        self._count += count
        if self._limit is not None and self._count > self._limit:
            raise LimitError(f"{self._owner} has more than {self._limit} bytes when it is unpacked")
        return count


class _Window(io.RawIOBase):
    """What tarfile needs of a file, over a source that only goes forward.

    Args:
        open_at: Opens the source at an offset.
        owner: Description of the source for messages.
        header: Largest read that an extension header may ask for, in bytes.
        far: Distance in bytes from which it pays to open anew rather than to read on; None never does.
    """

    def __init__(self, open_at: Callable[[int], Reader], owner: str, header: int, far: int | None) -> None:
        self._open_at = open_at
        self._owner = owner
        self._most = max(header + _BLOCK, READ_SIZE)
        self._far = far
        self._reader: Reader | None = None
        self._at = 0
        self._jumps = 0
        self.last = b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1, /) -> bytes:
        if size < 0 or size > self._most:
            raise LimitError(f"{self._owner} has an extension header that is too large")
        if self._reader is None:
            self._reader = self._open_at(self._at)
        buffer = memoryview(bytearray(size))
        count = fill(self._reader, buffer)
        self._at += count
        data = bytes(buffer[:count])
        if size == _BLOCK:
            self.last = data
        return data

    def seek(self, offset: int, whence: int = 0, /) -> int:
        if whence or offset < self._at:
            raise FormatError(f"{self._owner} is not a tar archive that can be read forward")
        if self._far is not None and offset - self._at > self._far:
            self._jumps += 1
            if self._jumps > _MOST_JUMPS:
                raise LimitError(f"{self._owner} has more than {_MOST_JUMPS} large files")
            self._drop()
            self._at = offset
        while self._at < offset and self.read(min(READ_SIZE, offset - self._at)):
            pass
        return self._at

    def close(self) -> None:
        self._drop()
        super().close()

    def _drop(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
