# SPDX-License-Identifier: Apache-2.0
"""Notes on open uploads: one process at a time, nothing that fails, nothing that stays for ever."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ocibridge.stores.registry.notes import FOLDER, UploadNote


def note(folder: Path | None, blob: str = "sha256:x") -> UploadNote:
    return UploadNote(folder, "https://registry/repository", blob)


def test_the_next_process_finds_what_was_left(tmp_path: Path) -> None:
    with note(tmp_path) as first:
        assert first.location is None
        first.write("https://registry/a/longer/place")
        first.write("https://registry/place?x=1")
    with note(tmp_path, "sha256:y") as other:
        assert other.location is None
    with note(tmp_path) as second:
        assert second.location == "https://registry/place?x=1"
        second.forget()
    assert list((tmp_path / FOLDER).iterdir()) == []
    with note(tmp_path) as third:
        assert third.location is None
        third.write("https://registry/place")
    (path,) = (tmp_path / FOLDER).iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_note_in_use_is_nobody_elses(tmp_path: Path) -> None:
    with note(tmp_path) as first:
        first.write("https://registry/place")
        with note(tmp_path) as second:
            assert second.location is None
            assert not second.kept
            second.write("https://registry/elsewhere")
            second.forget()
        assert first.kept
    with note(tmp_path) as third:
        assert third.location == "https://registry/place"


def test_a_note_that_was_cut_short_says_nothing(tmp_path: Path) -> None:
    with note(tmp_path) as first:
        first.write("https://registry/place")
    (path,) = (tmp_path / FOLDER).iterdir()
    for data in (b"https://registry/pla", b"", b"\n"):
        path.write_bytes(data)
        with note(tmp_path) as second:
            assert second.location is None


def test_what_was_never_written_leaves_no_file(tmp_path: Path) -> None:
    with note(tmp_path):
        pass
    assert list((tmp_path / FOLDER).iterdir()) == []


def test_a_note_goes_with_the_name_of_its_blob(tmp_path: Path) -> None:
    with note(tmp_path, "key") as first:
        first.write("https://registry/place")
        first.rename("sha256:x")
    with note(tmp_path, "key") as nothing:
        assert nothing.location is None
    with note(tmp_path) as second:
        assert second.location == "https://registry/place"


def test_old_notes_are_removed(tmp_path: Path) -> None:
    with note(tmp_path, "old") as old:
        old.write("https://registry/place")
    (path,) = (tmp_path / FOLDER).iterdir()
    os.utime(path, (1, 1))
    with note(tmp_path, "new"):
        assert not path.exists()


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_a_place_that_cannot_be_written_keeps_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with note(tmp_path / name) as made:
        assert not made.kept
        made.write("https://registry/place")
        made.rename("y")
    with note(None) as made:
        assert not made.kept
