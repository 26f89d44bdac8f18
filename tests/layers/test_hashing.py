# SPDX-License-Identifier: Apache-2.0
"""The hashes of files in a stream, however it is cut into pieces."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocibridge.io.content import BytesContent
from ocibridge.io.hasher import SMALL, BackgroundHasher
from ocibridge.io.readers import chunks
from ocibridge.layers.stream import LayerHasher


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 40)), max_size=8), st.integers(0, 9), st.integers(1, 50))
def test_every_file_is_hashed(sizes: list[tuple[int, int]], tail: int, step: int) -> None:
    data = bytes(range(256)) * 2
    data = data[: sum(gap + size for gap, size in sizes) + tail]
    expected, at = [], 0
    for gap, size in sizes:
        expected.append(hashlib.sha256(data[at + gap : at + gap + size]).hexdigest())
        at += gap + size
    counts: list[int] = []
    with LayerHasher(sizes, counts.append, threads=False) as hasher:
        read = b"".join(bytes(piece) for piece in hasher.watch(chunks(BytesContent(data).open(), step)))
        assert hasher.files() == expected
    assert (read, hasher.hash.digest()) == (data, hashlib.sha256(data).digest())
    assert sum(counts) == sum(size for _, size in sizes)


@pytest.mark.parametrize("step", [SMALL // 2, SMALL, 3 * SMALL])
def test_threads_change_nothing(step: int) -> None:
    sizes = [(5, 4 * SMALL + 1), (0, SMALL), (7, SMALL - 1), (1, 0), (0, 2 * SMALL)]
    data = hashlib.shake_128(b"x").digest(sum(map(sum, sizes)) + 9)
    with LayerHasher(sizes, lambda _: None, threads=True) as hasher:
        for _ in hasher.watch(chunks(BytesContent(data).open(), step)):
            pass
        found = hasher.files()
    at = 0
    for (gap, size), sha256 in zip(sizes, found, strict=True):
        assert sha256 == hashlib.sha256(data[at + gap : at + gap + size]).hexdigest()
        at += gap + size
    assert hasher.hash.digest() == hashlib.sha256(data).digest()


def test_a_content_that_is_one_file_is_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    data, counts, hashed = b"x" * 1000, list[int](), list[int]()
    update = BackgroundHasher.update

    def counted(self: BackgroundHasher, digest: hashlib._Hash, piece: memoryview) -> None:
        hashed.append(len(piece))
        update(self, digest, piece)

    monkeypatch.setattr(BackgroundHasher, "update", counted)
    with LayerHasher(None, counts.append, threads=False) as hasher:
        assert b"".join(hasher.watch(chunks(BytesContent(data).open()))) == data
        assert hasher.files() == [hashlib.sha256(data).hexdigest()]
    assert sum(counts) == sum(hashed) == 1000
