# SPDX-License-Identifier: Apache-2.0
"""Reading ahead: the same bytes, in fewer reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocibridge.errors import IntegrityError
from ocibridge.io.content import BytesContent, Concatenation, Content, FileContent, read_all
from ocibridge.io.readers import ReadAheadReader, Reader, byte_view, file_position
from ocibridge.layers.tar import read_tar, tar_gap, tar_header, tar_parts

FILES = {"a": b"1" * 700, "b": b"", "c/long": b"2" * 5000, "d": b"3" * 512, "ü": b"4"}


def pack(files: dict[str, bytes]) -> bytes:
    contents: list[tuple[str, Content]] = [(path, BytesContent(data)) for path, data in files.items()]
    return read_all(Concatenation(tar_parts(contents)))


class Counted(Reader):
    """A stream that counts the reads, and gives `most` bytes at once."""

    def __init__(self, data: bytes, most: int = 1 << 20) -> None:
        self._reader = BytesContent(data).open()
        self._most = most
        self.reads = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object, /) -> int:
        self.reads += 1
        return self._reader.readinto(byte_view(buffer)[: self._most]) or 0


@given(st.binary(max_size=200), st.integers(0, 40), st.lists(st.tuples(st.booleans(), st.integers(1, 60)), max_size=30))
def test_a_window_gives_every_byte_once(data: bytes, size: int, steps: list[tuple[bool, int]]) -> None:
    window = ReadAheadReader(Counted(data, 7), size)
    found = b""
    for held, count in steps:
        view = window.read_view(count) if held else None
        if view is None:
            buffer = memoryview(bytearray(count))
            view = buffer[: window.readinto(buffer)]
        else:
            assert count <= size
            assert len(view) == min(count, len(data) - len(found))
        found += bytes(view)
    assert data.startswith(found)
    assert size or not window.ahead


@pytest.mark.parametrize("ahead", [0, 100, 600, 4096, 1 << 20])
def test_an_archive_is_the_same_however_far_ahead(ahead: int) -> None:
    data, gaps = pack(FILES), bytearray()
    put_together = b""
    found = {}
    for entry in read_tar(Counted(data), "it", ahead=ahead, gaps=gaps):
        put_together += bytes(gaps)
        gaps.clear()
        view = entry.reader.buffered_rest()  # type: ignore[attr-defined]
        assert (view is None) == (entry.size > ahead)
        found[entry.path] = entry.reader.read() if view is None else bytes(view)
        put_together += found[entry.path]
    assert found == FILES
    assert put_together + bytes(gaps) == data


def test_small_files_need_no_reads_of_their_own() -> None:
    source = Counted(pack({f"{number:03}": b"x" * 100 for number in range(100)}))
    assert len([entry.reader.buffered_rest() for entry in read_tar(source, "it", ahead=1 << 18)]) == 100  # type: ignore[attr-defined]
    assert source.reads < 5


def test_an_archive_that_ends_in_a_file_at_hand() -> None:
    data = tar_header("x", 100) + b"y" * 50
    with pytest.raises(IntegrityError, match="after the end"):
        for entry in read_tar(Counted(data), "it", ahead=4096):
            entry.reader.buffered_rest()  # type: ignore[attr-defined]


def test_gaps_are_those_of_the_archive() -> None:
    names = sorted(FILES, key=str.encode)
    made, before = b"", 0
    for name in names:
        made += tar_gap(before, name, len(FILES[name])) + FILES[name]
        before = len(FILES[name])
    assert made + tar_gap(before, None) == pack(FILES)


def test_the_place_in_a_file_is_not_told_while_bytes_of_it_are_ahead(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(3000))
    with FileContent(tmp_path / "file", lasting=True).open() as reader:
        window = ReadAheadReader(reader, 1000)
        window.read_view(10)
        assert file_position(window) is None
        window.readinto(bytearray(990))
        place = file_position(window)
        assert place is not None
        assert place[1] == 1000
