# SPDX-License-Identifier: Apache-2.0
"""The hashes of files in a stream, however it is cut into pieces."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocibridge.io.content import BytesContent, chunks
from ocibridge.io.hasher import SMALL, BackgroundHasher
from ocibridge.layers.hashing import Tally


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 40)), max_size=8), st.integers(0, 9), st.integers(1, 50))
def test_every_file_is_hashed(sizes: list[tuple[int, int]], tail: int, step: int) -> None:
    data = bytes(range(256)) * 2
    data = data[: sum(gap + size for gap, size in sizes) + tail]
    expected, at = [], 0
    for gap, size in sizes:
        expected.append(hashlib.sha256(data[at + gap : at + gap + size]).hexdigest())
        at += gap + size
    counts: list[int] = []
    with BackgroundHasher(False) as one, Tally(BytesContent(data).open(), sizes, (one, one), counts.append) as reader:
        read = b"".join(bytes(piece) for piece in chunks(reader, step))
        assert reader.files() == expected
    assert (read, reader.hash.digest()) == (data, hashlib.sha256(data).digest())
    assert sum(counts) == sum(size for _, size in sizes)


@pytest.mark.parametrize("step", [SMALL // 2, SMALL, 3 * SMALL])
def test_threads_change_nothing(step: int) -> None:
    sizes = [(5, 4 * SMALL + 1), (0, SMALL), (7, SMALL - 1), (1, 0), (0, 2 * SMALL)]
    data = hashlib.shake_128(b"x").digest(sum(map(sum, sizes)) + 9)
    with (
        BackgroundHasher(True) as every,
        BackgroundHasher(True) as each,
        Tally(BytesContent(data).open(), sizes, (every, each), lambda _: None) as reader,
    ):
        for _ in chunks(reader, step):
            pass
        found = reader.files()
    at = 0
    for (gap, size), sha256 in zip(sizes, found, strict=True):
        assert sha256 == hashlib.sha256(data[at + gap : at + gap + size]).hexdigest()
        at += gap + size
    assert reader.hash.digest() == hashlib.sha256(data).digest()


def test_a_content_that_is_one_file_is_hashed_once() -> None:
    data, counts = b"x" * 1000, list[int]()
    with BackgroundHasher(False) as every, BackgroundHasher(False) as each:
        each.update = lambda *_: pytest.fail("it was hashed twice")  # type: ignore[method-assign]
        with Tally(BytesContent(data).open(), None, (every, each), counts.append) as reader:
            reader.read()
            assert reader.files() == [hashlib.sha256(data).hexdigest()]
    assert sum(counts) == 1000
