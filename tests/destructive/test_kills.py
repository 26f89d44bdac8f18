# SPDX-License-Identifier: Apache-2.0
"""A process is killed at any step of its last act: nothing of the user's is lost, and the next run completes it."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from .scene import FILES, NEWER, Scene, files_of, fill, snapshot

_KILL = """
import os, pathlib, signal, sys
import ocibridge.io.merge as merge, ocibridge.io.staging as staging
what, after = sys.argv[1], int(sys.argv[2])
owners = {"link": os, "unlink": pathlib.Path, "replace": pathlib.Path, "rename": pathlib.Path, "rmtree": staging.shutil,
          "add_rows": merge, "write_pieces": merge}
call = getattr(owners[what], what)
def counted(*args, **more):
    global after
    done = call(*args, **more) if after > 0 or what in ("add_rows", "link", "rename") else None
    after -= 1
    if after < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return done
setattr(owners[what], what, counted)
from ocibridge.cli.main import main
sys.exit(main(sys.argv[3:]))
"""
MINE = {"notes.txt": b"mine", "weights/mine.bin": b"mine"}


def killed(what: str, after: int, *argv: object) -> bool:
    """Run a command that is killed at a step; False where it ended before."""
    command = [sys.executable, "-c", _KILL, what, str(after), *map(str, argv)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0


@pytest.mark.parametrize("tag", ["v2", "v2-raw"])
@pytest.mark.parametrize(
    ("what", "after"),
    [("add_rows", 0), ("replace", 0), ("replace", 1), ("link", 0), ("unlink", 0), ("write_pieces", 0), ("rmtree", 0)],
)
def test_adding_to_a_folder(scene: Scene, tag: str, what: str, after: int, capsys: pytest.CaptureFixture[str]) -> None:
    folder = scene.root / "ours"
    fill(folder, MINE)
    assert killed(what, after, "pull", f"oci:{scene.layout}:{tag}", folder)
    found = files_of(folder)
    for path, data in found.items():
        assert data in ({**FILES, **MINE}.get(path), NEWER.get(path)), path
    assert {*FILES, *MINE}.issubset(found)
    assert scene.pull(folder, tag=tag) == 0, capsys.readouterr().err
    assert files_of(folder) == {**NEWER, **MINE}
    assert sorted(path.name for path in scene.root.iterdir() if path.name.startswith(".")) == []
    # What came is known as ours, and what is not stays theirs.
    assert scene.pull(folder, tag="v1") == 0
    assert scene.pull(folder, "--force") == 1
    for path in MINE:
        (folder / path).unlink()
    assert scene.pull(folder, "--force") == 0


@pytest.mark.parametrize("then", ["--delete-existing", None])
@pytest.mark.parametrize(("what", "after"), [("rename", 0), ("rename", 1), ("rmtree", 0)])
def test_replacing_a_folder(scene: Scene, then: str | None, what: str, after: int) -> None:
    folder = scene.root / "foreign"
    before = files_of(folder)
    assert killed(what, after, "pull", f"oci:{scene.layout}:v1", folder, "--delete-existing")
    if then:
        assert scene.pull(folder, then) == 0
        assert files_of(folder) == FILES
    elif (what, after) == ("rename", 0):
        # Killed with the folder moved away: whoever comes next finds it in its place again.
        assert scene.pull(folder) == 1
        assert files_of(folder) == before
    else:
        assert scene.pull(folder) == 0
        assert files_of(folder) == FILES


@pytest.mark.parametrize(("what", "after"), [("link", 0), ("unlink", 0), ("replace", 0)])
def test_a_file(scene: Scene, what: str, after: int) -> None:
    dest = scene.root / ("mine.carton" if what == "replace" else "new.carton")
    before = snapshot(scene.root)
    assert killed(what, after, "pull", f"oci:{scene.layout}:carton", dest, "--overwrite")
    found = snapshot(scene.root)
    assert all(found[path] == facts for path, facts in before.items())
    assert scene.pull(dest, "--overwrite", tag="carton") == 0
    assert [path.name for path in scene.root.iterdir() if path.name.startswith(".")] == []
