# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import pytest

from ocibridge.errors import DestinationError
from ocibridge.mirror.journal import MirrorJournal

A, B = "localhost:5000/models/a:v1", "localhost:5000/models/b:v1"
ONE, TWO = "sha256:" + "1" * 64, "sha256:" + "2" * 64


def test_what_was_done_is_known_to_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "journal.jsonl"
    with MirrorJournal(path) as journal:
        assert journal.known(A) is None
        journal.done(A, ONE, ONE)
        journal.done(B, ONE, TWO)
        journal.forget(B)
        journal.finish()
    with MirrorJournal(path) as journal:
        assert journal.known(A) == (ONE, ONE)
        assert journal.known(B) is None
        assert journal.unfinished == frozenset()
        assert journal.blobs == frozenset()
    assert MirrorJournal.read(path) == {A: (ONE, ONE, "")}


def test_a_run_that_was_killed_says_how_far_it_came(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with MirrorJournal(path) as journal:
        journal.done(A, ONE, ONE)
        journal.finish()
    for _ in range(2):  # killed twice
        with MirrorJournal(path) as journal:
            journal.blob(ONE, 7, "localhost:5000/models/b", "copied")
            journal.done(B, TWO, TWO)
    with MirrorJournal(path) as journal:
        assert journal.unfinished == {B}
        assert journal.blobs == {("localhost:5000/models/b", ONE)}
        assert journal.known(A) == (ONE, ONE)


def test_a_torn_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with MirrorJournal(path) as journal:
        journal.done(A, ONE, ONE)
    with path.open("ab") as file:
        file.write(b'{"done": "localhost:5000/mo')
    with MirrorJournal(path) as journal:
        journal.done(B, TWO, TWO)
    with MirrorJournal(path) as journal:
        assert (journal.known(A), journal.known(B)) == ((ONE, ONE), (TWO, TWO))
    for line in path.read_bytes().splitlines():
        json.loads(line)


@pytest.mark.parametrize(
    "data", [b"\x00\xff\n", b"[]\n1\nnull\n", b'{"done": 1}\n{"run": "x"}\n', b'{"blob": {}}\n', b"x"]
)
def test_a_file_that_is_no_journal_knows_nothing(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(data)
    with MirrorJournal(path) as journal:
        assert journal.known(A) is None
        journal.done(A, ONE, ONE)
    assert MirrorJournal.read(path) == {A: (ONE, ONE, "")}


def test_two_runs_of_one_job_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with MirrorJournal(path), pytest.raises(DestinationError, match="another run of this job is under way"):
        MirrorJournal(path)
    with MirrorJournal(path):
        pass


def test_the_next_run_keeps_only_what_it_needs(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with MirrorJournal(path) as journal:
        for number in range(100):
            journal.blob(ONE, number, "localhost:5000/models/a", "copied")
            journal.done(A, ONE, f"sha256:{number}")
        journal.finish()
    assert len(path.read_bytes().splitlines()) == 202
    with MirrorJournal(path) as journal:
        assert journal.known(A) == (ONE, "sha256:99")
    assert len(path.read_bytes().splitlines()) == 4


def test_notes_need_no_file() -> None:
    with MirrorJournal(None) as journal:
        journal.blob(ONE, 7, "localhost:5000/models/a", "copied")
        journal.done(A, ONE, TWO)
        journal.finish()
        assert journal.known(A) == (ONE, TWO)
    assert MirrorJournal.read(Path("/nonexistent/journal")) == {}
