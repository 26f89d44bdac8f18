# SPDX-License-Identifier: Apache-2.0
"""Decoders that give no more bytes than they are asked for, so that a small input cannot fill the memory."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import IO, Any, cast

import zstandard

from ...errors import IntegrityError, LimitError
from ...io.readers import Reader

_FEED = 64 * 1024

Decoder = Callable[[memoryview], int]
"""Fills the buffer as far as it can, and returns the number of bytes; 0 at the end of the stream or of its input."""


def inflater(source: Reader, label: str, wbits: int = -zlib.MAX_WBITS) -> Decoder:
    """Decode one deflate stream (RFC 1951; RFC 1950 and 1952 by other `wbits`, see `zlib.decompressobj`).

    Raises:
        IntegrityError: (while decoding) the data is no such stream.
    """
    stream = zlib.decompressobj(wbits)
    ended = False

    def decode(target: memoryview) -> int:
        nonlocal ended
        while len(target) and not stream.eof:
            feed = stream.unconsumed_tail
            if not feed and not ended:
                feed = source.read(_FEED) or b""
                ended = not feed
            try:
                piece = stream.decompress(feed, len(target))
            except zlib.error:
                raise IntegrityError(f"{label}: the compressed data is damaged") from None
            if piece:
                target[: len(piece)] = piece
                return len(piece)
            if ended and not feed:
                break
        return 0

    return decode


def unzstd(source: Reader, label: str, window: int) -> Decoder:
    """Decode zstd frames one after the other (RFC 8878, section 3.1).

    Args:
        source: The compressed bytes.
        label: What they are, for messages.
        window: Largest window accepted, in bytes.

    Raises:
        LimitError: (while decoding) a frame asks for a larger window.
        IntegrityError: (while decoding) the data is no zstd.
    """
    decompressor = zstandard.ZstdDecompressor(max_window_size=window)
    stream: Any = decompressor.stream_reader(
        cast(IO[bytes], source), read_size=_FEED, read_across_frames=True, closefd=False
    )

    def decode(target: memoryview) -> int:
        try:
            return int(stream.readinto(target)) if len(target) else 0
        except zstandard.ZstdError as exc:
            if "too much memory" in str(exc):
                raise LimitError(f"{label} needs a zstd window of more than the {window} bytes accepted") from None
            raise IntegrityError(f"{label}: the compressed data is damaged") from None

    return decode
