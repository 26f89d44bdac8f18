# SPDX-License-Identifier: Apache-2.0
"""Notes of what has arrived: whatever a killed process or a bad disk leaves of them, they are read or begun anew."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ocibridge.errors import DestinationError
from ocibridge.io import journal as module
from ocibridge.io.journal import MARK, Journal, JournalEntry

LAYER = "sha256:" + "1" * 64
ENTRIES = [
    JournalEntry(b"\0header\xff", "a", 5),
    JournalEntry(None, "ü/b", 7, "0" * 64),
    JournalEntry(None, "c", 1),
    JournalEntry(b"end"),
]


@contextmanager
def opened(path: Path, key: str = "key") -> Iterator[Journal]:
    journal = Journal(path, key)
    try:
        yield journal
    finally:
        journal.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal with two marks and one layer."""
    with opened(tmp_path / "journal") as journal:
        assert not journal.resumed
        for entry in ENTRIES:
            journal.add(LAYER, entry)
        journal.mark("a", 3)
        journal.mark("ü/b", 7)
    return tmp_path / "journal"


def test_everything_is_there_again(path: Path) -> None:
    with opened(path) as journal:
        assert journal.resumed
        assert journal.entries(LAYER) == ENTRIES
        assert journal.entries("sha256:other") == []
        assert [journal.marked(name) for name in ("a", "ü/b", "c")] == [3, 7, 0]


def test_a_torn_last_line_is_cut_off(path: Path) -> None:
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    for cut in range(len(lines[-1])):
        path.write_bytes(whole[: len(whole) - len(lines[-1]) + cut])
        with opened(path) as journal:
            assert journal.resumed
            assert [journal.marked(name) for name in ("a", "ü/b")] == [3, 0]
            journal.mark("c", 1)
        with opened(path) as journal:
            assert [journal.marked(name) for name in ("a", "ü/b", "c")] == [3, 0, 1]


def test_another_key_begins_anew(path: Path) -> None:
    with opened(path, "other") as journal:
        assert not journal.resumed
        assert (journal.entries(LAYER), journal.marked("a")) == ([], 0)
    with opened(path) as journal:
        assert not journal.resumed


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"\0" * 40,
        b"[]",
        b"1",
        b"null",
        b'{"layer":"x"}',
        b'{"file":"a"}',
        b'{"file":"a","done":"x"}',
        b'{"file":"a","done":Infinity}',
        b'{"file":"a","done":-1}',
        b'{"layer":"x","files":[["a",-1]]}',
        b'{"layer":"x","files":[["a"]]}',
        b'{"layer":"x","files":[["a",1,null,null,5]]}',
        b'{"layer":"x","files":5}',
        b'{"layer":"x","files":[["\\ud800",1]]}',
        b'{"layer":"x","files":[["a",1,"!"]]}',
        b'{"layer":"x","files":[["a",1,"YWJ"]]}',
        b'{"cut":"unknown","count":1}',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_a_damaged_line_begins_anew(path: Path, line: bytes) -> None:
    with open(path, "ab") as file:
        file.write(line + b'\n{"file":"c","done":1}\n')
    with opened(path) as journal:
        assert not journal.resumed
        assert (journal.entries(LAYER), journal.marked("a"), journal.marked("c")) == ([], 0, 0)
        journal.mark("d", 1)
    with opened(path) as journal:
        assert journal.resumed
        assert journal.marked("d") == 1


def test_a_huge_one_is_not_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LARGEST", path.stat().st_size - 1)
    with opened(path) as journal:
        assert not journal.resumed
    assert path.stat().st_size < 100


def test_forget_and_cut(path: Path) -> None:
    with opened(path) as journal:
        journal.cut(LAYER, 1)
        assert journal.entries(LAYER) == ENTRIES[:1]
    with opened(path) as journal:
        assert journal.entries(LAYER) == ENTRIES[:1]
        journal.forget(LAYER)
        assert journal.marked("a") == 0
    with opened(path) as journal:
        assert journal.resumed
        assert (journal.entries(LAYER), journal.marked("a"), journal.marked("ü/b")) == ([], 0, 7)


def test_files_of_a_shared_layer_are_noted_as_they_come(tmp_path: Path) -> None:
    """A killed process loses no more than one mark of bytes, however small its notes are."""
    with opened(tmp_path / "journal") as journal:
        for number in range(8):
            journal.add(LAYER, JournalEntry(b"", str(number), MARK // 2))
        with opened(tmp_path / "journal") as later:
            assert len(later.entries(LAYER)) >= 6


def test_many_small_files_take_few_lines(tmp_path: Path) -> None:
    with opened(tmp_path / "journal") as journal:
        for number in range(2000):
            journal.add(LAYER, JournalEntry(None, f"folder/{number}", 4096))
        journal.add(LAYER, JournalEntry(None))
    data = (tmp_path / "journal").read_bytes()
    assert data.count(b"\n") < 20
    assert len(data) < 2000 * 32
    with opened(tmp_path / "journal") as journal:
        assert [entry.path for entry in journal.entries(LAYER)] == [*(f"folder/{n}" for n in range(2000)), None]


def test_two_layers_that_arrive_at_once(tmp_path: Path) -> None:
    with opened(tmp_path / "journal") as journal:
        for number in range(9):
            journal.add(str(number % 2), JournalEntry(None, str(number), number))
        journal.flush()
    with opened(tmp_path / "journal") as journal:
        assert [[entry.size for entry in journal.entries(layer)] for layer in "01"] == [[0, 2, 4, 6, 8], [1, 3, 5, 7]]


def test_what_a_full_disk_did_not_take_is_written_later(path: Path) -> None:
    class Full:
        """A file that takes seven bytes, and then nothing."""

        closed = False

        def __init__(self, file: object) -> None:
            self.file = file
            self.left = 7

        def write(self, data: bytes) -> int:
            if not self.left:
                raise OSError(28, "No space left on device")
            count, self.left = self.left, 0
            return int(self.file.write(data[:count]))  # type: ignore[attr-defined]

    with opened(path) as journal:
        file = journal._log._file
        journal._log._file = Full(file)  # type: ignore[assignment]
        with pytest.raises(DestinationError, match="no space left"):
            journal.mark("c", 9)
        journal._log._file = file
        journal.flush()
    with opened(path) as journal:
        assert journal.resumed
        assert (journal.marked("a"), journal.marked("c")) == (3, 9)


def test_a_journal_that_cannot_be_begun_leaves_no_open_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Journal) -> None:
        raise DestinationError("it is full")

    monkeypatch.setattr(Journal, "reset", fail)
    with pytest.raises(DestinationError, match="it is full"):
        Journal(tmp_path / "journal", "key")


def test_a_link_is_no_journal(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"precious")
    (tmp_path / "journal").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DestinationError):
        Journal(tmp_path / "journal", "key")
    assert (tmp_path / "elsewhere").read_bytes() == b"precious"
