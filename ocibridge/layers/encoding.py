# SPDX-License-Identifier: Apache-2.0
"""The four encodings of a layer, and the streams that compress and decompress.

Compressed bytes must be a function of the input alone: fixed parameters, one thread, no time, no name, and input in
full chunks. Both codecs are pinned by what they are: zlib's format of the standard library, libzstd by the version
range of the `zstandard` package. A Python built against zlib-ng writes other gzip bytes (see docs/architecture.md).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import IO, cast

from ..errors import FormatError, IntegrityError
from ..io.readers import PieceReader, Reader, chunks
from ..settings import DEFAULT_LIMITS, READ_SIZE, Limits

GZIP_LEVEL = 6
ZSTD_LEVEL = 3
_GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"


class Encoding(str, Enum):
    """Encoding of the files of a layer; the value is the suffix of the media type."""

    RAW = "raw"
    TAR = "tar"
    TAR_GZIP = "tar+gzip"
    TAR_ZSTD = "tar+zstd"

    @property
    def compressed(self) -> bool:
        """True if the layer digest differs from the diff id."""
        return self in (Encoding.TAR_GZIP, Encoding.TAR_ZSTD)


def compress(chunks: Iterable[memoryview], encoding: Encoding, size: int) -> Iterator[bytes]:
    """The compressed form of `size` bytes, which come in full chunks (see `io.content.chunks`), piece by piece."""
    return _gzip(chunks) if encoding is Encoding.TAR_GZIP else _zstd(chunks, size)


def _gzip(chunks: Iterable[memoryview]) -> Iterator[bytes]:
    encoder = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS, 8, zlib.Z_DEFAULT_STRATEGY)
    checksum = total = 0
    yield _GZIP_HEADER
    for chunk in chunks:
        checksum = zlib.crc32(chunk, checksum)
        total += len(chunk)
        yield encoder.compress(chunk)
    yield encoder.flush() + struct.pack("<LL", checksum, total & 0xFFFFFFFF)


def _zstd(chunks: Iterable[memoryview], size: int) -> Iterator[bytes]:
    import zstandard

    encoder = zstandard.ZstdCompressor(level=ZSTD_LEVEL, write_checksum=False, threads=0).compressobj(size=size)
    for chunk in chunks:
        yield encoder.compress(chunk)
    yield encoder.flush()


def decompress(reader: Reader, encoding: Encoding, owner: str, limits: Limits = DEFAULT_LIMITS) -> Reader:
    """A reader of the decompressed bytes; nothing is decoded before it is asked for.

    Raises:
        FormatError: (while reading) the bytes are not of this encoding, or ask for too large a window.
        IntegrityError: (while reading) they end too early.
    """
    pieces = _gunzip(reader, owner) if encoding is Encoding.TAR_GZIP else _unzstd(reader, owner, limits)
    return PieceReader(pieces)


def _gunzip(reader: Reader, owner: str) -> Iterator[bytes]:
    decoder = zlib.decompressobj(zlib.MAX_WBITS | 16)
    started = False
    try:
        for chunk in chunks(reader):
            data, more = bytes(chunk), True
            while data or more:
                if decoder.eof:
                    decoder = zlib.decompressobj(zlib.MAX_WBITS | 16)
                started = True
                piece = decoder.decompress(data, READ_SIZE)
                yield piece
                data = decoder.unused_data if decoder.eof else decoder.unconsumed_tail
                more = len(piece) == READ_SIZE and not decoder.eof
    except zlib.error:
        raise FormatError(f"{owner} is not valid gzip") from None
    if not (started and decoder.eof):
        raise IntegrityError(f"{owner} ends in the middle of its gzip stream")


def _unzstd(reader: Reader, owner: str, limits: Limits) -> Iterator[bytes]:
    import zstandard

    decoder = zstandard.ZstdDecompressor(max_window_size=limits.zstd_window)
    try:
        with decoder.stream_reader(
            cast(IO[bytes], reader), read_size=READ_SIZE, read_across_frames=True, closefd=False
        ) as stream:
            while piece := stream.read(READ_SIZE):
                yield piece
    except zstandard.ZstdError:
        raise FormatError(
            f"{owner} is not valid zstd, or needs a window of more than {limits.zstd_window} bytes"
        ) from None
