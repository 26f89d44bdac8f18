# SPDX-License-Identifier: Apache-2.0
"""Blobs of a store as contents."""

from __future__ import annotations

from pathlib import Path

import pytest

from ocibridge.errors import IntegrityError, OcibridgeError
from ocibridge.io.content import BytesContent, Content, read_all
from ocibridge.io.readers import Reader
from ocibridge.oci import Descriptor
from ocibridge.stores.content import HEAD, BlobContent
from ocibridge.stores.layout import LayoutStore

SIZES = (0, 1, HEAD - 1, HEAD, HEAD + 1, 3 * HEAD)


class Counting(LayoutStore):
    """Remembers from where blobs were opened, and which readers are open."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, create=True)
        self.offsets: list[int] = []
        self.readers: list[Reader] = []

    def _open_blob(self, descriptor: Descriptor, offset: int) -> Reader:
        self.offsets.append(offset)
        self.readers.append(super()._open_blob(descriptor, offset))
        return self.readers[-1]


def blob(store: LayoutStore, data: bytes) -> Descriptor:
    descriptor = Descriptor.of(data, "x/y")
    store.push_blob(descriptor, BytesContent(data))
    return descriptor


def take(content: Content, count: int) -> bytes:
    with content.open() as reader:
        return reader.read(count) or b""


@pytest.mark.parametrize("size", SIZES)
def test_it_reads_as_often_as_wanted(size: int, tmp_path: Path) -> None:
    data = bytes(number % 251 for number in range(size))
    store = Counting(tmp_path / "layout")
    content = BlobContent(store, blob(store, data))
    assert content.size == size
    assert [read_all(content) for _ in range(3)] == [data] * 3
    for offset in (1, size // 2, size - 1):
        if 0 < offset < size:
            with content.open(offset) as reader:
                assert b"".join(iter(lambda: reader.read(1000), b"")) == data[offset:]
    assert all(reader.closed for reader in store.readers)


def test_a_look_at_the_header_is_one_request(tmp_path: Path) -> None:
    store = Counting(tmp_path / "layout")
    data = bytes(3 * HEAD)
    content = BlobContent(store, blob(store, data))
    for _ in range(3):
        assert take(content, 9) == bytes(9)
    assert store.offsets == [0]
    assert [reader.closed for reader in store.readers] == [True]
    assert read_all(content) == data
    assert store.offsets == [0, HEAD]


def test_the_whole_at_once_is_one_request(tmp_path: Path) -> None:
    store = Counting(tmp_path / "layout")
    content = BlobContent(store, blob(store, bytes(3 * HEAD)))
    read_all(content)
    assert store.offsets == [0]


@pytest.mark.parametrize("size", SIZES[1:])
@pytest.mark.parametrize("damage", ["flip", "short", "long"])
def test_damage_is_found(size: int, damage: str, tmp_path: Path) -> None:
    store = Counting(tmp_path / "layout")
    descriptor = blob(store, bytes(size))
    path = tmp_path / "layout" / "blobs" / "sha256" / descriptor.digest[7:]
    path.chmod(0o644)
    path.write_bytes({"flip": bytes(size - 1) + b"\1", "short": bytes(size - 1), "long": bytes(size + 1)}[damage])
    content = BlobContent(store, descriptor)
    for _ in range(2):
        with pytest.raises(IntegrityError if damage == "flip" else OcibridgeError):
            read_all(content)
    assert all(reader.closed for reader in store.readers)


@pytest.mark.parametrize("size", [1, HEAD, 2 * HEAD])
@pytest.mark.parametrize("left", [0, 1, HEAD + 1])
def test_a_line_that_ends_early(size: int, left: int, tmp_path: Path) -> None:
    class Cut(LayoutStore):
        def _open_blob(self, descriptor: Descriptor, offset: int) -> Reader:
            return BytesContent(bytes(size)[offset : max(offset, left)]).open()

    store = Cut(tmp_path / "layout", create=True)
    content = BlobContent(store, Descriptor.of(bytes(size), "x/y"))
    for _ in range(3):
        if left < size:
            with pytest.raises(IntegrityError):
                read_all(content)
        else:
            assert read_all(content) == bytes(size)
