# SPDX-License-Identifier: Apache-2.0
"""Writing behind what is there, in order, and without a thread left over."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ocibridge.io import positioned as filling
from ocibridge.io.content import BytesContent
from ocibridge.io.incoming import read_pieces
from ocibridge.io.journal import MARK
from ocibridge.io.positioned import PositionedWriter, fsync_all, write_at
from ocibridge.settings import PIECE_SIZE


@pytest.fixture
def handle(tmp_path: Path) -> Iterator[int]:
    opened = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    try:
        yield opened
    finally:
        os.close(opened)


def content(handle: int) -> bytes:
    return os.pread(handle, 1 << 30, 0)


@pytest.mark.parametrize("step", [1, 3, 7, 10, 100])
def test_kept_bytes_are_passed_over(handle: int, step: int) -> None:
    os.write(handle, b"..kept")
    filler = PositionedWriter(handle, offset=2, kept=4)
    data = b"KEPTand the rest"
    for start in range(0, len(data), step):
        filler.write(data[start : start + step])
    assert content(handle) == b"..keptand the rest"
    assert filler.done == len(data)


def test_marks_say_no_more_than_is_written(handle: int) -> None:
    marks: list[int] = []

    def mark(done: int) -> None:
        assert os.fstat(handle).st_size == done
        marks.append(done)

    filler = PositionedWriter(handle, kept=0, mark=mark)
    for _ in range(8):
        filler.write(bytes(MARK // 2))
    assert marks == [MARK, 2 * MARK, 3 * MARK, 4 * MARK]


def test_bytes_that_were_kept_are_not_marked_again(handle: int) -> None:
    marks: list[int] = []
    filler = PositionedWriter(handle, kept=2 * MARK, mark=marks.append)
    for _ in range(3):
        filler.write(bytes(MARK))
    assert marks == [3 * MARK]


def test_a_short_write_goes_on(handle: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filling, "write_at", lambda handle, view, offset: write_at(handle, view[:2], offset))
    PositionedWriter(handle).write(b"abcdefg")
    assert content(handle) == b"abcdefg"


def test_without_pwrite_and_posix_fadvise(handle: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pwrite", raising=False)
    monkeypatch.delattr(os, "posix_fadvise", raising=False)
    filler = PositionedWriter(handle, offset=1)
    for _ in range(9):
        filler.write(b"x" * (1 << 20))
    assert content(handle) == b"\0" + b"x" * (9 << 20)


@pytest.mark.parametrize("size", [0, 1, PIECE_SIZE - 1, PIECE_SIZE, PIECE_SIZE + 1, 3 * PIECE_SIZE])
def test_turns_give_full_pieces(size: int) -> None:
    data = os.urandom(size)
    pieces = [bytes(piece) for piece in read_pieces(BytesContent(data).open(), size)]
    assert b"".join(pieces) == data
    assert all(len(piece) == PIECE_SIZE for piece in pieces[:-1])


def test_turns_leave_a_piece_alone_until_the_next_but_one() -> None:
    data = b"".join(bytes([number]) * PIECE_SIZE for number in range(6))
    before = None
    for number, piece in enumerate(read_pieces(BytesContent(data).open(), len(data))):
        assert before is None or before[0] == number - 1
        before = piece


def test_turns_find_more_bytes_than_promised() -> None:
    assert sum(map(len, read_pieces(BytesContent(bytes(10)).open(), 4))) > 4


@pytest.mark.parametrize("count", [0, 3, 100])
@pytest.mark.parametrize("known", [True, False], ids=["syncfs", "no-syncfs"])
def test_settle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, known: bool) -> None:
    synced: list[Path] = []
    sync = filling._sync

    def noted(path: Path) -> None:
        synced.append(path)
        sync(path)

    monkeypatch.setattr(filling, "_sync", noted)
    if not known:
        monkeypatch.setattr("sys.platform", "other")
    files = [tmp_path / str(number) for number in range(count)]
    for path in files:
        path.write_bytes(b"x")
    together = known and count == 100 and filling._sync_file_system(tmp_path)
    fsync_all(tmp_path, files)
    assert sorted(synced) == ([] if together else sorted(files))


def test_settle_says_what_the_disk_says(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        fsync_all(tmp_path, [tmp_path / "missing"])
