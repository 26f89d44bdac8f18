# SPDX-License-Identifier: Apache-2.0
"""`--dry-run` of pull and convert: what would be written is said, and nothing is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ocibridge import ConvertOptions, PullOptions, PushOptions, convert, inspect, pull, push
from ocibridge.cli.main import main
from ocibridge.errors import DestinationError, FormatError, UsageError

NAMES = ["a.txt", "b.txt", "sub/c.txt"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "folder"
    for name in NAMES:
        (found / name).parent.mkdir(parents=True, exist_ok=True)
        (found / name).write_text(name)
    return found


@pytest.fixture
def stored(tmp_path: Path, folder: Path) -> str:
    reference = f"oci:{tmp_path}/layout:v1"
    push(folder, reference, PushOptions(layers="raw-files"))
    return reference


def everything(folder: Path) -> dict[str, bytes | None]:
    return {str(each): each.read_bytes() if each.is_file() else None for each in sorted(folder.rglob("*"))}


def test_nothing_is_read_or_written(tmp_path: Path, stored: str) -> None:
    for each in inspect(stored).files:
        (tmp_path / "layout/blobs/sha256" / str(each.sha256)).unlink()
    before = everything(tmp_path)
    report = pull(stored, tmp_path / "x" / "y" / "back", PullOptions(dry_run=True))
    assert everything(tmp_path) == before
    assert report.dry_run
    assert [(each.path, each.size, each.action) for each in report.files] == [
        ("a.txt", 5, "add"),
        ("b.txt", 5, "add"),
        ("sub/c.txt", 9, "add"),
    ]
    assert (report.file_count, report.changes.added, report.format, report.identity) == (3, 3, "folder", None)


def test_a_folder_that_is_there(tmp_path: Path, folder: Path, stored: str) -> None:
    target = tmp_path / "back"
    pull(stored, target)
    (target / "sub/c.txt").unlink()
    (folder / "b.txt").write_text("other")
    push(folder, stored, PushOptions(layers="raw-files"))
    before = everything(tmp_path)
    for report in (
        pull(stored, target, PullOptions(dry_run=True)),
        convert(folder, target, ConvertOptions(dry_run=True, overwrite=True)),
    ):
        actions = {each.path: each.action for each in report.files}
        assert actions["sub/c.txt"] == "add"
        assert actions["a.txt"] in ("keep", "compare")
        assert actions["b.txt"] in ("update", "compare")
    assert everything(tmp_path) == before
    planned = pull(stored, target, PullOptions(dry_run=True)).changes
    assert pull(stored, target).changes == planned


def test_what_is_in_the_way_is_refused_alike(tmp_path: Path, stored: str) -> None:
    target = tmp_path / "back"
    target.mkdir()
    (target / "a.txt").write_text("mine")
    messages = []
    for dry_run in (True, False):
        with pytest.raises(DestinationError) as caught:
            pull(stored, target, PullOptions(dry_run=dry_run))
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert "'a.txt' in it is in the way" in messages[0]


@pytest.mark.parametrize("force", [True, False])
def test_what_would_be_replaced_stays(
    tmp_path: Path, stored: str, force: bool, caplog: pytest.LogCaptureFixture
) -> None:
    target = tmp_path / "back"
    pull(stored, target)
    before = everything(tmp_path)
    report = pull(stored, target, PullOptions(dry_run=True, force=force, delete_existing=not force))
    assert {each.action for each in report.files} == {"add"}
    assert everything(tmp_path) == before
    assert "deleting" not in caplog.text
    assert ("would delete 4 files" in caplog.text) is not force


def test_archives_are_one_file(tmp_path: Path, carton: Callable[[str], Path]) -> None:
    reference = f"oci:{tmp_path}/layout:v1"
    push(carton("digits.carton"), reference)
    report = pull(reference, tmp_path / "x.carton", PullOptions(dry_run=True))
    assert [(each.path, each.action) for each in report.files] == [(f"{tmp_path}/x.carton", "add")]
    pull(reference, tmp_path / "x.carton")
    again = pull(reference, tmp_path / "x.carton", PullOptions(dry_run=True, overwrite=True))
    assert [each.action for each in again.files] == ["update"]
    assert pull(reference, tmp_path / "x.carton", PullOptions(dry_run=True)).dry_run


def test_what_the_format_cannot_hold(tmp_path: Path, stored: str, folder: Path) -> None:
    for target in ("x/y.carton", "x/y.gguf"):
        with pytest.raises(FormatError):
            pull(stored, tmp_path / target, PullOptions(dry_run=True))
        with pytest.raises(FormatError):
            convert(folder, tmp_path / target, ConvertOptions(dry_run=True))
    assert not (tmp_path / "x").exists()


def test_losses(tmp_path: Path, carton: Callable[[str], Path]) -> None:
    options = ConvertOptions(dry_run=True)
    planned = convert(carton("digits.carton"), tmp_path / "x.mlarchive", options)
    assert planned.losses
    assert planned.losses == convert(carton("digits.carton"), tmp_path / "x.mlarchive").losses


def test_what_an_interrupted_pull_has_left_stays(tmp_path: Path, stored: str) -> None:
    left = tmp_path / ".back.ocibridge"
    left.mkdir(mode=0o700)
    (left / "journal").write_text("of another pull")
    pull(stored, tmp_path / "back", PullOptions(dry_run=True))
    assert (left / "journal").read_text() == "of another pull"


def test_some_files(tmp_path: Path, stored: str) -> None:
    report = pull(stored, tmp_path / "back", PullOptions(dry_run=True, include=["b.txt"]))
    assert [each.path for each in report.files] == ["b.txt"]
    assert (report.file_count, report.selected_from) == (1, 3)


def test_what_cannot_be_planned(tmp_path: Path, folder: Path, stored: str) -> None:
    with pytest.raises(UsageError, match="leave out one of --dry-run and --thin"):
        pull(stored, tmp_path / "x.carton", PullOptions(dry_run=True, thin=True))
    with pytest.raises(UsageError, match="--dry-run is for a target on disk"):
        convert(folder, f"oci:{tmp_path}/other:v1", ConvertOptions(dry_run=True))


def test_the_command_line(tmp_path: Path, folder: Path, stored: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pull", stored, f"{tmp_path}/back", "--dry-run"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == ["add  5 B  a.txt", "add  5 B  b.txt", "add  9 B  sub/c.txt"]
    assert f"would pull to {tmp_path}/back (folder): 3 files, 19 B, in " in err
    assert main(["convert", str(folder), f"{tmp_path}/back", "--dry-run", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["dryRun"], [each["action"] for each in report["files"]]) == (True, ["add"] * 3)
    assert main(["pull", stored, f"{tmp_path}/back", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["dryRun"], report["files"]) == (False, [])
