# SPDX-License-Identifier: Apache-2.0
"""Entries of a layer, read from its tar headers, if possible without the bytes of the files."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial
from typing import Literal

from ..errors import FormatError, IntegrityError, LimitError
from ..io.readers import HashingReader, Reader, SkippingReader, chunks, drain, read_full
from ..layers.encoding import Encoding, decompress
from ..layers.tar import BLOCK, DIRECTORY, HARD_LINK, REGULAR, SYMLINK, TarEntry, is_header, read_tar
from ..oci import Descriptor
from ..settings import READ_SIZE, KiB, MiB
from ..stores.base import Store

Kind = Literal["file", "folder", "link", "hardlink", "device"]
SMALL = 64 * MiB
"""Layers of less than this many bytes are read whole without being asked to."""

_MOST_UNPACKED = 16 * SMALL
_NEAR = MiB
_AHEAD = 256 * KiB
_MOST_JUMPS = 2000
_KINDS: dict[bytes, Kind] = {REGULAR: "file", DIRECTORY: "folder", SYMLINK: "link", HARD_LINK: "hardlink"}


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
    kind: Kind = "file"
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
        buffer = memoryview(bytearray(min(BLOCK, descriptor.size)))
        head = bytes(buffer[: read_full(reader, buffer)])
    if head[:2] == b"\x1f\x8b":
        return Encoding.TAR_GZIP
    if head[:4] == b"\x28\xb5\x2f\xfd":
        return Encoding.TAR_ZSTD
    return Encoding.TAR if len(head) == BLOCK and (is_header(head) or not any(head)) else Encoding.RAW


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
    except FormatError:
        return LayerContents(archive=False)
    return LayerContents(unread="it is compressed, so that it had to be read whole")


def _stream(store: Store, descriptor: Descriptor, encoding: Encoding, owner: str, limit: int | None) -> LayerContents:
    with store.open_blob(descriptor) as blob:
        source = blob if encoding is Encoding.TAR else decompress(blob, encoding, owner, store.limits)
        unpacked = _Unpacked(source, limit, owner)
        found = []
        try:
            for entry in read_tar(unpacked, owner, store.limits, ahead=_AHEAD, lenient=True):
                found.append(_entry(entry, _sha256(entry)))
            drain(unpacked)  # the digest of a layer is that of all its bytes
        except (FormatError, IntegrityError) as exc:
            drain(blob)  # an error where the store gives other bytes; else the blob was made like that
            raise FormatError(exc.message) from exc
        drain(blob)
    return LayerContents(tuple(found), "sha256:" + unpacked.hash.hexdigest())


def _walk(store: Store, descriptor: Descriptor, owner: str) -> LayerContents:
    found = []
    with SkippingReader(partial(store.resume_blob, descriptor), descriptor.size, far=_NEAR) as reader:
        try:
            for entry in read_tar(reader, owner, store.limits, lenient=True):
                found.append(_entry(entry))
                if reader.jumps > _MOST_JUMPS:
                    raise LimitError(f"{owner} has more than {_MOST_JUMPS} large files")
        except IntegrityError as exc:
            raise FormatError(exc.message) from exc
    return LayerContents(tuple(found))


def _entry(entry: TarEntry, sha256: str | None = None) -> LayerEntry:
    kind = _KINDS.get(entry.kind, "device")
    return LayerEntry(entry.path, kind, entry.size, entry.link, entry.mode, sha256 if kind == "file" else None)


def _sha256(entry: TarEntry) -> str:
    digest = hashlib.sha256()
    for chunk in chunks(entry.reader, max(1, min(entry.size, READ_SIZE))):
        digest.update(chunk)
    return digest.hexdigest()


class _Unpacked(HashingReader):
    """Hashes what passes, and ends at a limit: a few bytes may become very many."""

    def __init__(self, source: Reader, limit: int | None, owner: str) -> None:
        super().__init__(source)
        self._limit = limit
        self._owner = owner

    def readinto(self, buffer: object, /) -> int:
        count = super().readinto(buffer)
        if self._limit is not None and self.count > self._limit:
            raise LimitError(f"{self._owner} has more than {self._limit} bytes when it is unpacked")
        return count
