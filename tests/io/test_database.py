# SPDX-License-Identifier: Apache-2.0
"""A file of notes that may be lost: whatever happens to it, nothing fails."""

from __future__ import annotations

import multiprocessing
import sqlite3
import stat
import sys
from pathlib import Path

import pytest

from ocibridge.io import database
from ocibridge.io.database import Database

SCHEMA = "CREATE TABLE IF NOT EXISTS notes (key INTEGER PRIMARY KEY, value TEXT)"


def write(path: Path, start: int, count: int) -> None:
    with Database(path, SCHEMA) as notes:
        for key in range(start, start + count):
            notes.change("INSERT INTO notes VALUES (?, ?)", key, "x")


def test_what_is_written_is_found_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "notes.sqlite"
    write(path, 0, 2)
    with Database(path, SCHEMA) as notes:
        assert notes.rows("SELECT key FROM notes ORDER BY key") == [(0,), (1,)]
        assert notes.change("DELETE FROM notes WHERE key = 1") == 1
        notes.close()
        assert notes.rows("SELECT key FROM notes") == [(0,)]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_nothing_is_made_before_it_is_used(tmp_path: Path) -> None:
    with Database(tmp_path / "notes.sqlite", SCHEMA):
        pass
    assert not list(tmp_path.iterdir())


def test_processes_write_at_the_same_time(tmp_path: Path) -> None:
    path = tmp_path / "notes.sqlite"
    context = multiprocessing.get_context("spawn")
    children = [context.Process(target=write, args=(path, start, 50)) for start in (0, 50, 100)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
    assert [child.exitcode for child in children] == [0, 0, 0]
    with Database(path, SCHEMA) as notes:
        assert notes.rows("SELECT count(*) FROM notes") == [(150,)]


@pytest.mark.parametrize("damage", [b"this is no database", b"SQLite format 3\0" + b"\xff" * 4000])
def test_a_damaged_file_is_replaced_by_the_next_process(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "notes.sqlite"
    path.write_bytes(damage)
    with Database(path, SCHEMA) as notes:
        assert notes.rows("SELECT key FROM notes") == []
        assert notes.change("INSERT INTO notes VALUES (1, '')") == 0
    write(path, 7, 1)
    with Database(path, SCHEMA) as notes:
        assert notes.rows("SELECT key FROM notes") == [(7,)]


def test_a_file_that_another_process_holds_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "LOCK_TIMEOUT", 0.01)
    path = tmp_path / "notes.sqlite"
    write(path, 0, 1)
    holder = sqlite3.connect(path, isolation_level=None)
    try:
        holder.execute("BEGIN EXCLUSIVE")
        with Database(path, SCHEMA) as notes:
            assert notes.rows("SELECT key FROM notes") == []
    finally:
        holder.close()
    with Database(path, SCHEMA) as notes:
        assert notes.rows("SELECT key FROM notes") == [(0,)]


def test_a_place_that_cannot_be_written_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    folder = tmp_path / "folder"
    folder.mkdir()
    for path in (tmp_path / "file" / "notes.sqlite", folder):
        with Database(path, SCHEMA) as notes:
            assert notes.change("INSERT INTO notes VALUES (1, '')") == 0
            assert notes.rows("SELECT key FROM notes") == []
    assert list(folder.iterdir()) == []


def test_a_python_without_sqlite_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlite3", None)
    with Database(tmp_path / "notes.sqlite", SCHEMA) as notes:
        assert notes.change("INSERT INTO notes VALUES (1, '')") == 0
    assert not list(tmp_path.iterdir())
