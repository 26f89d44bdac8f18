# SPDX-License-Identifier: Apache-2.0
"""Full disks and targets that cannot be written: one sentence, nothing half-done, and the same command goes on."""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import suppress
from pathlib import Path

import pytest

import ocibridge
from ocibridge.settings import MiB

from ..kill.counting import Line
from ..registry import RegistryServer
from .conftest import Commands, Outcome
from .disk import Disk


def same(carton: Path, copy: Path | str) -> bool:
    return ocibridge.inspect(copy).identity == ocibridge.verify(copy).identity == ocibridge.inspect(carton).identity


def pull_until_full(command: Commands, line: Line, disk: Disk, source: str, dest: object) -> Outcome:
    """Pull, and let the disk be full after 8 MiB."""
    line.hold(8 * MiB)
    running = command.start("pull", "-q", f"{line.host}/{source}", dest)
    assert line.reached.wait(60)
    # What has passed may still be on its way to the disk.
    end = time.monotonic() + 10
    while _written(disk.folder) < 2 * MiB and time.monotonic() < end:
        time.sleep(0.01)
    disk.fill()
    line.go.set()
    return command.end(running)


def _written(folder: Path) -> int:
    """Bytes that take up room below a folder."""
    found = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            found += path.stat().st_blocks * 512
    return found


@pytest.mark.parametrize("name", ["back", "back.carton"])
def test_pull(disk: Disk, command: Commands, line: Line, pushed: str, carton: Path, name: str) -> None:
    dest = disk.folder / name
    full = pull_until_full(command, line, disk, pushed, dest)
    assert full.sentence.endswith("no space left on device; free some space, or write to another disk")
    assert disk.names == [f".{name}.ocibridge"]
    still = command("pull", "-q", f"{line.host}/{pushed}", dest)
    assert "and 0 B are free; free " in still.sentence
    assert disk.names == [f".{name}.ocibridge"], "what has arrived is kept"
    disk.free()
    done = command("pull", f"{line.host}/{pushed}", dest, "--json")
    assert json.loads(done.out)["kept"] > MiB
    assert disk.names == [name]
    assert same(carton, dest)


@pytest.mark.parametrize("name", ["back", "back.carton"])
def test_a_pull_that_cannot_end_does_not_begin(
    disk: Disk, command: Commands, line: Line, pushed: str, name: str
) -> None:
    disk.fill(left=MiB)
    refused = command("pull", "-q", f"{line.host}/{pushed}", disk.folder / name)
    assert "it needs 12.0 MiB, and 1" in refused.sentence
    assert disk.names == []
    assert line.received < MiB


def test_pull_to_ollama(
    disk: Disk, command: Commands, line: Line, repository: str, gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_MODELS", str(disk.folder / "models"))
    source = f"{repository}:v1"
    assert command("push", "-q", gguf, f"{line.host}/{source}", "--layers", "raw-files").status == 0
    full = pull_until_full(command, line, disk, source, "ollama:digits")
    assert full.sentence.endswith("no space left on device; free some space, or write to another disk")
    models = disk.folder / "models"
    assert [path.suffix for path in models.iterdir()] == [".ocibridge"]
    disk.free()
    done = command("pull", f"{line.host}/{source}", "ollama:digits")
    assert done.status == 0
    assert " MiB kept from an earlier run, in " in done.err
    assert sorted(path.name for path in models.iterdir()) == ["blobs", "manifests"]
    assert command("verify", "ollama:digits", "-q").status == 0


@pytest.mark.parametrize("fresh", [True, False], ids=["new", "there"])
def test_push_to_a_layout(disk: Disk, command: Commands, carton: Path, tmp_path: Path, fresh: bool) -> None:
    layout = disk.folder / "layout"
    if not fresh:
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "README.md").write_text("other")
        assert command("push", "-q", tmp_path / "other", f"oci:{layout}:other").status == 0
    disk.fill(left=5 * MiB)
    full = command("push", "-q", carton, f"oci:{layout}:v1")
    # A layer that a new layout takes while it is hashed is found too large by the disk, one of known digest before.
    said = "no space left on device; free some space" if fresh else "5.0 MiB are free; free 7.0 MiB more"
    assert full.sentence.endswith(f"{said}, or write to another disk")
    # What has arrived of the weight may be there for the next push; no blob has a name unless it is whole.
    blobs = layout / "blobs" / "sha256"
    assert all(hashlib.sha256(path.read_bytes()).hexdigest() == path.name for path in blobs.iterdir())
    others = {path.name for path in layout.rglob("*") if path.is_file() and path.parent != blobs}
    assert {name for name in others if not name.startswith(".ocibridge-")} == {"oci-layout", "index.json"}
    with pytest.raises(ocibridge.NotFound):
        ocibridge.inspect(f"oci:{layout}:v1")
    disk.free()
    assert command("push", "-q", carton, f"oci:{layout}:v1").status == 0
    assert same(carton, f"oci:{layout}:v1")
    assert not list(layout.glob(".*"))


def test_push_to_an_archive(disk: Disk, command: Commands, carton: Path) -> None:
    disk.fill(left=5 * MiB)
    full = command("push", "-q", carton, f"oci-archive:{disk.folder}/x.tar:v1")
    assert full.sentence.endswith("no space left on device; free some space, or write to another disk")
    assert disk.names == []
    disk.free()
    assert command("push", "-q", carton, f"oci-archive:{disk.folder}/x.tar:v1").status == 0
    assert same(carton, f"oci-archive:{disk.folder}/x.tar:v1")


@pytest.mark.parametrize("name", ["back", "back.carton", "ollama:digits"])
def test_pull_where_nothing_can_be_written(
    walled: Path, command: Commands, registry: RegistryServer, pushed: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_MODELS", str(walled / "models"))
    dest = name if ":" in name else walled / name
    refused = command("pull", "-q", f"{registry.host}/{pushed}", dest)
    assert refused.sentence.startswith("cannot write" if ":" not in name else "")
    assert not walled.is_dir() or not list(walled.iterdir())


@pytest.mark.parametrize("target", ["oci:{}/layout:v1", "oci-archive:{}/x.tar:v1"])
def test_push_where_nothing_can_be_written(walled: Path, command: Commands, carton: Path, target: str) -> None:
    refused = command("push", "-q", carton, target.format(walled))
    assert refused.sentence.startswith("cannot ")
    assert not walled.is_dir() or not list(walled.iterdir())
