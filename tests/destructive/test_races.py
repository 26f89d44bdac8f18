# SPDX-License-Identifier: Apache-2.0
"""A second process changes the target while the first one is at work: its files stay."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ocibridge.io.merge import Merge
from ocibridge.io.staging import Staging

from .scene import NEWER, Scene, files_of, fill, lost, snapshot

_HOLD = (
    "import sys; from pathlib import Path; from ocibridge.io.staging import Staging\n"
    "space = Staging(Path(sys.argv[1]), folder=True, key='key'); print('held', flush=True); sys.stdin.read()"
)
MEANWHILE = "another process has"


def before_call(patch: pytest.MonkeyPatch, owner: type, name: str, act: Callable[[], object]) -> None:
    """Do something right before the first call of a method."""
    method = getattr(owner, name)
    waiting = [act]

    def call(self: Any, *args: Any, **more: Any) -> Any:
        while waiting:
            waiting.pop()()
        return method(self, *args, **more)

    patch.setattr(owner, name, call)


def theirs(path: Path, data: bytes = b"theirs") -> Callable[[], None]:
    return lambda: fill(path.parent, {path.name: data})


@pytest.mark.parametrize("name", ["README.md", "weights/b.bin", "weights/b.bin/x"])
@pytest.mark.parametrize("at", ["publish", "_move"])
def test_a_file_appears_in_the_folder(
    scene: Scene, name: str, at: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = scene.root / "ours" / name
    if name == "README.md":
        place.unlink()
    before_call(monkeypatch, Merge, at, theirs(place))
    before = snapshot(scene.root)
    assert scene.pull(scene.root / "ours", tag="v2") == 1
    err = capsys.readouterr().err
    assert MEANWHILE in err or "in the way" in err or "is a folder" in err
    assert place.read_bytes() == b"theirs"
    changed = lost(before, snapshot(scene.root))
    assert {"ours/config.json", "ours/.ocibridge"}.issuperset(changed)


@pytest.mark.parametrize("flags", [(), ("--overwrite",)])
def test_a_file_of_the_folder_changes(
    scene: Scene, flags: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = scene.root / "ours" / "config.json"
    before_call(monkeypatch, Merge, "_move", theirs(place))
    assert scene.pull(scene.root / "ours", *flags, tag="v2") == 1
    assert MEANWHILE in capsys.readouterr().err
    assert place.read_bytes() == b"theirs"
    # The next run knows that it is not ours.
    assert scene.pull(scene.root / "ours", tag="v2") == 1
    assert "'config.json' in it is in the way" in capsys.readouterr().err
    assert place.read_bytes() == b"theirs"
    assert scene.pull(scene.root / "ours", "--overwrite", tag="v2") == 0
    assert files_of(scene.root / "ours") == NEWER


def test_a_kept_file_changes(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    place = scene.root / "ours" / "README.md"
    before_call(monkeypatch, Merge, "publish", theirs(place))
    assert scene.pull(scene.root / "ours", tag="v2-raw") == 1
    assert place.read_bytes() == b"theirs"


def test_a_folder_of_the_folder_becomes_a_link(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = scene.root / "ours" / "weights"

    def lead_out() -> None:
        weights.rename(scene.root / "moved")
        weights.symlink_to(scene.home)

    before_call(monkeypatch, Merge, "_move", lead_out)
    before = snapshot(scene.home)
    assert scene.pull(scene.root / "ours", tag="v2") == 1
    assert snapshot(scene.home) == before


@pytest.mark.parametrize("flags", [(), ("--overwrite",), ("--force",), ("--delete-existing",)])
def test_the_folder_appears(
    scene: Scene, flags: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before_call(monkeypatch, Staging, "publish_folder", theirs(scene.root / "new" / "x"))
    assert scene.pull(scene.root / "new", *flags) == 1
    assert MEANWHILE in capsys.readouterr().err
    assert files_of(scene.root / "new") == {"x": b"theirs"}


@pytest.mark.parametrize("at", ["publish_folder", "_publish_whole"])
def test_a_file_appears_in_what_force_replaces(scene: Scene, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = snapshot(scene.root)
    before_call(monkeypatch, Staging, at, theirs(scene.root / "ours" / "x"))
    assert scene.pull(scene.root / "ours", "--force", tag="v2") == 1
    assert (scene.root / "ours" / "x").read_bytes() == b"theirs"
    assert lost(before, snapshot(scene.root)) == []


def test_a_file_appears_between_the_last_look_and_the_step(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    before = snapshot(scene.root)
    rename = Path.rename

    def late(self: Path, target: Path) -> Path:
        if self.name == "ours":
            theirs(self / "x")()
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", late)
    assert scene.pull(scene.root / "ours", "--force", tag="v2") == 1
    assert (scene.root / "ours" / "x").read_bytes() == b"theirs"
    assert lost(before, snapshot(scene.root)) == []


@pytest.mark.parametrize("flags", [(), ("--overwrite",), ("--force",), ("--delete-existing",)])
@pytest.mark.parametrize("there", [False, True])
def test_a_file_appears_or_changes(
    scene: Scene,
    flags: tuple[str, ...],
    there: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    dest = scene.root / "new.carton"
    if there:
        assert scene.pull(dest, tag="carton") == 0
        flags = (*(flags or ("--overwrite",)), "--zip-method=zstd")
    before_call(monkeypatch, Staging, "publish_file", theirs(dest))
    assert scene.pull(dest, *flags, tag="carton") == 1
    assert MEANWHILE in capsys.readouterr().err
    assert dest.read_bytes() == b"theirs"


@pytest.mark.parametrize("dest", ["ours", "new"])
@pytest.mark.parametrize("flags", [(), ("--overwrite",), ("--force",), ("--delete-existing",)])
def test_a_second_ocibridge(
    scene: Scene, dest: str, flags: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(scene.root / dest)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "held\n"
        before = snapshot(scene.root)
        assert scene.pull(scene.root / dest, *flags, tag="v2") == 1
        assert "another ocibridge is writing it" in capsys.readouterr().err
        assert snapshot(scene.root) == before
        first.kill()
    assert scene.pull(scene.root / dest, *flags, tag="v2") == 0
    assert files_of(scene.root / dest) == NEWER
