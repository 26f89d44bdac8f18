# SPDX-License-Identifier: Apache-2.0
"""The hidden folder beside a target: whose it is, what it keeps, and when it goes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ocibridge.errors import DestinationError
from ocibridge.io.atomic import KEEP
from ocibridge.io.existing import Existing, TargetRules
from ocibridge.io.staging import Staging, StagingFolder

_HOLD = (
    "import sys; from pathlib import Path; from ocibridge.io.staging import StagingFolder\n"
    "space = StagingFolder(Path(sys.argv[1]), 'key'); print('held', flush=True); sys.stdin.read()"
)


def left(dest: Path, key: str = "key", size: int = KEEP) -> Path:
    """A workspace with a file in it, as an interrupted process leaves it."""
    space = StagingFolder(dest, key)
    (space.path / "new").write_bytes(os.urandom(size))
    space.pause()
    assert space.path.exists() == (size >= KEEP)
    return space.path


def test_what_was_left_is_found_again(tmp_path: Path) -> None:
    path = left(tmp_path / "x")
    space = StagingFolder(tmp_path / "x", "key")
    assert space.resumed
    assert (path / "new").exists()
    assert path == tmp_path / ".x.ocibridge"
    space.discard()
    assert list(tmp_path.iterdir()) == []
    space.discard()


@pytest.mark.parametrize("key", ["other", None])
def test_what_was_left_of_something_else_goes(tmp_path: Path, key: str | None) -> None:
    path = left(tmp_path / "x")
    (path / "folder").mkdir()
    (path / "folder" / "file").touch()
    (path / "link").symlink_to(tmp_path)
    space = StagingFolder(tmp_path / "x", key)
    assert not space.resumed
    assert {child.name for child in path.iterdir()} == ({"lock"} if key is None else {"lock", "journal"})
    space.discard()
    assert list(tmp_path.iterdir()) == []


def test_little_is_not_worth_keeping(tmp_path: Path) -> None:
    left(tmp_path / "x", size=KEEP // 2)


def test_one_process_at_a_time(tmp_path: Path) -> None:
    dest = tmp_path / "x"
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(dest)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(DestinationError, match="another ocibridge is writing it; wait"):
            StagingFolder(dest, "key")
        with pytest.raises(DestinationError, match="cannot write the thing: another"):
            StagingFolder(dest, "key", label="the thing")
        process.kill()
        process.wait(30)
    space = StagingFolder(dest, "key")
    assert space.resumed
    space.discard()


def test_who_waits_for_a_folder_that_goes_makes_a_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between finding the folder and opening the lock, the process before removes both."""
    path = tmp_path / ".x.ocibridge"
    path.mkdir(mode=0o700)
    check = StagingFolder._check_owner

    def gone(self: StagingFolder) -> None:
        monkeypatch.setattr(StagingFolder, "_check_owner", check)
        shutil.rmtree(path)
        check(self)

    monkeypatch.setattr(StagingFolder, "_check_owner", gone)
    StagingFolder(tmp_path / "x", "key").discard()
    assert list(tmp_path.iterdir()) == []


def test_a_link_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".x.ocibridge").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DestinationError, match="is in the way, and not this user's own folder; remove it"):
        StagingFolder(tmp_path / "x", "key")
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="owners and modes of POSIX")
def test_a_folder_that_others_can_write_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / ".x.ocibridge"
    path.mkdir()
    path.chmod(0o777)
    with pytest.raises(DestinationError, match="not this user's own folder"):
        StagingFolder(tmp_path / "x", "key")
    path.chmod(0o700)
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    with pytest.raises(DestinationError, match="not this user's own folder"):
        StagingFolder(tmp_path / "x", "key")


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DestinationError, match="no such file or directory"):
        StagingFolder(tmp_path / "missing" / "x", "key")


def test_a_full_disk_is_refused_up_front_and_counts_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left(tmp_path / "x", size=4 * KEEP)
    space = StagingFolder(tmp_path / "x", "key")
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=KEEP))
    space.check_free_space(5 * KEEP)
    with pytest.raises(DestinationError, match=r"it needs 6\.0 MiB, and 1\.0 MiB are free; free "):
        space.check_free_space(6 * KEEP)
    space.discard()


@pytest.mark.parametrize("name", ["n" * 255, "ü" * 127, "n" * 201])
def test_long_names(tmp_path: Path, name: str) -> None:
    path = left(tmp_path / name)
    assert len(os.fsencode(path.name)) < 255
    space = StagingFolder(tmp_path / name, "key")
    assert space.resumed
    space.discard()


def test_full_while_leaving_loses_notes_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ocibridge.io.journal import Journal

    def full(_: Journal) -> None:
        raise DestinationError("it is full")

    space = StagingFolder(tmp_path / "x", "key")
    (space.path / "new").write_bytes(os.urandom(KEEP))
    monkeypatch.setattr(Journal, "flush", full)
    space.pause()
    assert space.path.exists()
    StagingFolder(tmp_path / "x", "key").discard()


def test_what_was_moved_away_comes_back(tmp_path: Path) -> None:
    """A process with --force was killed between the two renames; the next one is asked for something else."""
    path = left(tmp_path / "x")
    (path / "old").mkdir()
    (path / "old" / "precious").touch()
    StagingFolder(tmp_path / "x", "other").discard()
    assert (tmp_path / "x" / "precious").exists()


def test_a_file_that_has_its_final_name_is_not_written_again(tmp_path: Path) -> None:
    """A process was killed right after it gave the file its name."""
    path = left(tmp_path / "x")
    os.link(path / "new", tmp_path / "x")
    staging = Staging(tmp_path / "x", rules=TargetRules(Existing.OVERWRITE), key="key")
    assert not staging.temp.exists()
    staging.temp.write_bytes(b"new")
    staging.publish_file()
    assert (tmp_path / "x").read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [tmp_path / "x"]


def test_what_appears_while_another_process_works_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enter = StagingFolder._enter

    def appear(self: StagingFolder) -> int:
        (tmp_path / "x").write_bytes(b"theirs")
        return enter(self)

    monkeypatch.setattr(StagingFolder, "_enter", appear)
    with pytest.raises(DestinationError, match="it exists"):
        Staging(tmp_path / "x", key="key")
    assert list(tmp_path.iterdir()) == [tmp_path / "x"]
