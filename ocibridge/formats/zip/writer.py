# SPDX-License-Identifier: Apache-2.0
"""Zip archives whose bytes depend on nothing but names, contents and order.

Fixed date, mode, versions and compression parameters; no data descriptors; zip64 where a size or an offset needs it.
Every byte goes to a position that is known when it is written, so members whose sizes are known in advance can be
filled by several threads in any order. Compressed bytes depend on the codec too: libzstd is pinned by the version range
of the `zstandard` package, and a Python built against zlib-ng writes other deflate bytes.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType

import zstandard

from ...errors import IntegrityError, writing
from ...io.hasher import LARGE, BackgroundHasher
from ...io.incoming import LAG
from ...io.positioned import PositionedWriter, write_at
from ...paths import show
from . import records as r

METHODS = {"stored": r.STORED, "deflate": r.DEFLATED, "zstd": r.ZSTD}
"""Names of the methods that can be written."""

DEFLATE_LEVEL = 6
ZSTD_LEVEL = 3

_RESUME = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_NEW = _RESUME | os.O_EXCL
_DATE = 1 << 5 | 1  # 1980-01-01, the first date there is
_MODE_FILE = 0o100644
_MODE_SYMLINK = 0o120777
_VERSIONS = {r.STORED: 20, r.DEFLATED: 20, r.ZSTD: 63}


@dataclass(slots=True)
class MemberRecord:
    """One member being written; sizes and offsets in bytes."""

    name: str
    size: int
    method: int
    symlink: bool
    wide: bool
    header_offset: int
    compressed_size: int = 0
    crc: int = 0
    done: bool = False

    @property
    def data_offset(self) -> int:
        """Offset of its data in bytes."""
        return self.header_offset + r.LOCAL.size + len(self.name.encode()) + (20 if self.wide else 0)

    @property
    def version(self) -> int:
        """Version needed to extract (APPNOTE 4.4.3.2)."""
        return max(_VERSIONS[self.method], r.VERSION_ZIP64 if self.wide else 0)

    def local(self) -> bytes:
        """Its local header."""
        name = self.name.encode()
        extra = r.EXTRA.pack(r.ZIP64_EXTRA, 16) + r.quads(self.size, self.compressed_size) if self.wide else b""
        return (
            r.LOCAL.pack(r.LOCAL_SIGNATURE, self.version, *self._common(name), *self._sizes(), len(name), len(extra))
            + name
            + extra
        )

    def central(self) -> bytes:
        """Its directory record."""
        name = self.name.encode()
        far = self.header_offset >= r.MAX32
        wide = [self.size, self.compressed_size] if self.wide else []
        wide += [self.header_offset] if far else []
        extra = r.EXTRA.pack(r.ZIP64_EXTRA, 8 * len(wide)) + r.quads(*wide) if wide else b""
        version = max(self.version, r.VERSION_ZIP64 if wide else 0)
        mode = _MODE_SYMLINK if self.symlink else _MODE_FILE
        return (
            r.CENTRAL.pack(
                r.CENTRAL_SIGNATURE,
                version,
                r.SYSTEM_UNIX,
                version,
                *self._common(name),
                *self._sizes(),
                len(name),
                len(extra),
                *(0, 0, 0, mode << 16),
                min(self.header_offset, r.MAX32),
            )
            + name
            + extra
        )

    def _common(self, name: bytes) -> tuple[int, ...]:
        return (0 if name.isascii() else r.FLAG_UTF8, self.method, 0, _DATE, self.crc)

    def _sizes(self) -> tuple[int, int]:
        return (r.MAX32, r.MAX32) if self.wide else (self.compressed_size, self.size)


class ZipWriter:
    """Writes a new zip archive at `path`.

    ```python
    with ZipWriter(path) as archive:
        slot = archive.place("a.bin", 3)
        archive.append("b.bin", 3, [b"xyz"], "zstd")
        archive.fill(slot, [b"abc"])
        archive.finish()
    ```

    Args:
        path: The file, which must not exist.
        label: What to call it in messages; None takes `path`.
        resume: Whether a file that is there is written over; what is kept of it is up to `fill`.

    `place` and `append` are called by one thread at a time; `fill` by any number of threads.

    Raises:
        DestinationError: the file exists or cannot be made; also from every method, where it cannot be written.
    """

    def __init__(self, path: str | Path, *, label: str | None = None, resume: bool = False) -> None:
        self._path = label or path
        self._position = 0
        self._entries: list[MemberRecord] = []
        with writing(self._path):
            flags = _RESUME if resume else _NEW
            self._file = open(path, "r+b", buffering=0, opener=lambda name, _: os.open(name, flags, 0o666))

    def place(self, name: str, size: int, *, symlink: bool = False) -> MemberRecord:
        """Reserve `size` bytes at the end for a Stored member."""
        entry = MemberRecord(name, size, r.STORED, symlink, size >= r.MAX32, self._position, compressed_size=size)
        self._position = entry.data_offset + size
        self._entries.append(entry)
        return entry

    def fill(
        self,
        entry: MemberRecord,
        pieces: Iterable[bytes | memoryview],
        *,
        kept: int = 0,
        mark: Callable[[int], None] | None = None,
    ) -> None:
        """Write the bytes of a member whose space is reserved.

        Args:
            entry: From `place`.
            pieces: The bytes; a piece stays as it is as long as one of `ocibridge.io.incoming.read_pieces` does.
            kept: Bytes of them that are there already.
            mark: See `ocibridge.io.positioned.PositionedWriter`.

        Raises:
            IntegrityError: there are more or fewer bytes than reserved.
        """
        filler = PositionedWriter(self._file.fileno(), entry.data_offset, kept, mark)
        crc = Checksum()
        given = 0
        with BackgroundHasher(entry.size >= LARGE) as checking, BackgroundHasher(entry.size >= LARGE) as written:
            for piece in pieces:
                given += len(piece)
                if given > entry.size:
                    raise _wrong_size(entry)
                view = memoryview(piece)
                checking.wait(LAG)
                checking.update(crc, view)
                with writing(self._path):
                    written.wait(LAG)
                    written.do(partial(filler.write, view))
            with writing(self._path):
                written.wait()
        if filler.done != entry.size:
            raise _wrong_size(entry)
        entry.crc = crc.value
        self._write(entry.header_offset, entry.local())
        entry.done = True

    def append(
        self, name: str, size: int, pieces: Iterable[bytes | memoryview], method: str = "stored"
    ) -> MemberRecord:
        """Write a member at the end of what is there.

        Args:
            name: Its name.
            size: Length of its bytes before compression.
            pieces: The bytes, in pieces whose lengths depend on nothing but `size` (see `ocibridge.io.content.chunks`).
            method: `stored`, `deflate` or `zstd`.

        Raises:
            IntegrityError: there are more or fewer than `size` bytes.
        """
        number = METHODS[method]
        if number == r.STORED:
            entry = self.place(name, size)
            try:
                self.fill(entry, pieces)
            except BaseException:
                self._entries.pop()
                self._position = entry.header_offset
                raise
            return entry
        # Neither codec makes data longer by more than this, so the header's length is known before the data.
        wide = size + size // 128 + 1024 >= r.MAX32
        entry = MemberRecord(name, size, number, False, wide, self._position)
        done = 0

        def counted() -> Iterator[bytes | memoryview]:
            nonlocal done
            for piece in pieces:
                done += len(piece)
                if done > size:
                    raise _wrong_size(entry)
                entry.crc = zlib.crc32(piece, entry.crc)
                yield piece
            if done != size:
                raise _wrong_size(entry)

        for packed in _compress(counted(), size, number):
            self._write(entry.data_offset + entry.compressed_size, packed)
            entry.compressed_size += len(packed)
        self._write(entry.header_offset, entry.local())
        entry.done = True
        self._position = entry.data_offset + entry.compressed_size
        self._entries.append(entry)
        return entry

    def finish(self, order: Sequence[MemberRecord] | None = None) -> None:
        """Write the directory and flush everything to the disk.

        Args:
            order: Its order; None takes that in which the members were placed.
        """
        entries = self._entries if order is None else order
        if len(entries) != len(self._entries) or not all(entry.done for entry in entries):
            raise ValueError("a member is not written or not listed")
        directory = b"".join(entry.central() for entry in entries)
        directory += r.end_records(len(entries), len(directory), self._position)
        self._write(self._position, directory)
        end = self._position + len(directory)
        with writing(self._path):
            # A member that was begun and given up may have left more than is needed.
            self._file.truncate(end)
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file; harmless when it is closed."""
        self._file.close()

    def __enter__(self) -> ZipWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, offset: int, data: bytes | memoryview) -> None:
        view = memoryview(data)
        with writing(self._path):
            while view:
                count = write_at(self._file.fileno(), view, offset)
                view, offset = view[count:], offset + count


class Checksum:
    """A CRC-32 that grows."""

    def __init__(self) -> None:
        self.value = 0

    def update(self, data: memoryview) -> None:
        """Add bytes."""
        self.value = zlib.crc32(data, self.value)


def _compress(pieces: Iterable[bytes | memoryview], size: int, method: int) -> Iterator[bytes]:
    if method == r.DEFLATED:
        deflate = zlib.compressobj(DEFLATE_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS, 8, zlib.Z_DEFAULT_STRATEGY)
        for piece in pieces:
            yield deflate.compress(piece)
        yield deflate.flush()
    else:
        zstd = zstandard.ZstdCompressor(level=ZSTD_LEVEL, write_checksum=False, threads=0).compressobj(size=size)
        for piece in pieces:
            yield zstd.compress(piece)
        yield zstd.flush()


def _wrong_size(entry: MemberRecord) -> IntegrityError:
    return IntegrityError(
        f"{show(entry.name)} has not the {entry.size} bytes that were promised", hint="run the command again"
    )
