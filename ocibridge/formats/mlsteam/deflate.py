# SPDX-License-Identifier: Apache-2.0
"""Find the deflate level of compressed bytes, by compressing with each level while streaming."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

from ...io.content import Content
from ...io.readers import chunks, read_full

LEVELS = (6, 9, 1, 8, 7, 5, 4, 3, 2, 0)
"""The levels in the order of the trial: the usual ones first."""


def deflate(pieces: Iterable[bytes | memoryview], level: int) -> Iterator[bytes]:
    """Compress as Python's zipfile and the MLSteam SDK do: raw deflate, default strategy and memory."""
    encoder = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    for piece in pieces:
        yield encoder.compress(piece)
    yield encoder.flush()


def find_level(plain: Content, packed: Content) -> int | None:
    """The level at which zlib makes `packed` of `plain`, or None.

    Both are read once per level, but no further than to the first difference; in pieces, so memory stays bounded.
    """
    return next((level for level in LEVELS if _makes(plain, packed, level)), None)


def _makes(plain: Content, packed: Content, level: int) -> bool:
    with plain.open() as source, packed.open() as expected:
        for piece in deflate(chunks(source), level):
            buffer = memoryview(bytearray(len(piece)))
            if read_full(expected, buffer) != len(piece) or buffer != piece:
                return False
        return not expected.read(1)
