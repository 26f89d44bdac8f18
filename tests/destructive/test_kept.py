# SPDX-License-Identifier: Apache-2.0
"""Targets that are added to or replaced: what the tool did not write stays, unless a flag says that it goes."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

import ocibridge
from ocibridge.cli.main import main
from ocibridge.io.merge import Merge
from ocibridge.transfer import Progress, Task

from .scene import CARTON, FILES, NEWER, Scene, files_of, fill, lost, snapshot


class Moved(Progress):
    """Counts bytes that arrive."""

    def __init__(self) -> None:
        self.count = 0

    def advance(self, task: Task, count: int) -> None:
        self.count += count


@pytest.mark.parametrize("form", ["", "-raw"])
def test_a_folder_is_added_to(scene: Scene, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = scene.root / "foreign"
    fill(folder, {"config.json": FILES["config.json"], "weights/mine.bin": b"mine"})
    before = snapshot(scene.root)
    assert scene.pull(folder, tag=f"v1{form}") == 0
    assert "(2 added, 1 kept)" in capsys.readouterr().err
    assert lost(before, snapshot(scene.root)) == []
    assert files_of(folder) == {**FILES, "precious.txt": b"mine", "weights/mine.bin": b"mine"}


@pytest.mark.parametrize("form", ["", "-raw"])
def test_what_an_earlier_pull_wrote_is_updated(scene: Scene, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = scene.root / "ours"
    fill(folder, {"notes.txt": b"mine"})
    assert scene.pull(folder, "--json", tag=f"v2{form}") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["changes"] == {"added": 1, "updated": 1, "kept": 2}
    assert files_of(folder) == {**NEWER, "notes.txt": b"mine"}
    # Nothing is removed, and the record still knows what came with the first pull.
    assert scene.pull(folder, "--json", tag="v1") == 0
    assert json.loads(capsys.readouterr().out)["changes"] == {"added": 0, "updated": 1, "kept": 2}
    assert files_of(folder) == {**FILES, "weights/b.bin": NEWER["weights/b.bin"], "notes.txt": b"mine"}


@pytest.mark.parametrize("form", ["", "-raw"])
def test_layers_of_equal_files_do_not_move(scene: Scene, form: str) -> None:
    moved = Moved()
    report = ocibridge.pull(f"oci:{scene.layout}:v1{form}", scene.root / "ours", progress=moved)
    assert (report.changes.kept, moved.count) == (3, 0)
    (scene.root / "ours" / "README.md").unlink()
    report = ocibridge.pull(f"oci:{scene.layout}:v1{form}", scene.root / "ours", progress=moved)
    assert (report.changes.added, report.changes.kept) == (1, 2)
    assert 0 < moved.count < 3000
    assert files_of(scene.root / "ours") == FILES


def test_an_equal_file_of_somebody_stays_theirs(scene: Scene) -> None:
    """A later version does not update it, and force does not take it for ours."""
    folder = scene.root / "foreign"
    fill(folder, {"config.json": FILES["config.json"]})
    assert scene.pull(folder) == 0
    assert scene.pull(folder, tag="v2") == 1
    assert scene.pull(folder, "--force") == 1
    assert files_of(folder) == {**FILES, "precious.txt": b"mine"}


def test_overwrite_replaces_files_in_the_way_alone(scene: Scene) -> None:
    folder = scene.root / "foreign"
    os.link(folder / "config.json", scene.root / "linked.json")
    (folder / "README.md").symlink_to(scene.home / "thesis.txt")
    before = snapshot(scene.root)
    assert scene.pull(folder, "--overwrite") == 0
    assert sorted(lost(before, snapshot(scene.root))) == ["foreign/README.md", "foreign/config.json"]
    assert files_of(folder) == {**FILES, "precious.txt": b"mine"}


def test_what_only_its_bytes_tell_is_not_fetched_twice(
    scene: Scene, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the tar layer of another tool does not list its files, the conflict is found once they are here."""
    monkeypatch.setattr(Merge, "_may_be_equal", lambda *_: True)
    data = os.urandom(3 << 20)
    fill(scene.root / "big", {"big.bin": data})
    fill(scene.root / "foreign", {"big.bin": bytes(len(data)), "other": b"mine"})
    assert main(["push", str(scene.root / "big"), f"oci:{scene.layout}:big", "-q"]) == 0
    before = snapshot(scene.root)
    assert scene.pull(scene.root / "foreign", tag="big") == 1
    assert "'big.bin' in it is in the way" in capsys.readouterr().err
    assert lost(before, snapshot(scene.root)) == []
    assert scene.pull(scene.root / "foreign", "--overwrite", "--json", tag="big") == 0
    assert json.loads(capsys.readouterr().out)["kept"] > len(data)
    assert (scene.root / "foreign" / "big.bin").read_bytes() == data
    assert (scene.root / "foreign" / "other").read_bytes() == b"mine"


@pytest.mark.parametrize("flag", ["--force", "--delete-existing"])
def test_what_ocibridge_wrote_is_replaced(scene: Scene, flag: str) -> None:
    before = snapshot(scene.root)
    assert scene.pull(scene.root / "ours", flag, tag="v2") == 0
    assert all(path.startswith("ours/") for path in lost(before, snapshot(scene.root)))
    assert files_of(scene.root / "ours") == NEWER


def test_deleting_says_first_what_goes(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    folder = scene.root / "foreign"
    (folder / "away").symlink_to(scene.home)
    (folder / "x.json").symlink_to(scene.home / "thesis.txt")
    before = snapshot(scene.root)
    assert scene.pull(folder, "--delete-existing") == 0
    first = capsys.readouterr().err.splitlines()[0]
    assert re.search(rf"ocibridge: deleting 4 files, \d+ B, in {re.escape(str(folder))}$", first)
    assert all(path.startswith("foreign/") for path in lost(before, snapshot(scene.root)))
    assert files_of(folder) == FILES


@pytest.mark.parametrize("dest", [".", "", "{home}", "{root}/to-home", "a/../../work"])
def test_adding_to_a_place_that_is_never_replaced(scene: Scene, dest: str) -> None:
    before = snapshot(scene.root)
    assert scene.pull(dest.format(home=scene.home, root=scene.root) or "./") == 0
    assert lost(before, snapshot(scene.root)) == []


@pytest.mark.parametrize("flag", [(), ("--overwrite",), ("--force",), ("--delete-existing",)])
def test_an_empty_folder_is_nothing(scene: Scene, flag: tuple[str, ...]) -> None:
    empty = scene.root / "empty"
    empty.mkdir(mode=0o750)
    before = snapshot(scene.root)
    assert scene.pull(empty, *flag) == 0
    assert files_of(empty) == FILES
    assert lost(before, snapshot(scene.root)) == []


@pytest.mark.parametrize("flag", ["--overwrite", "--force", "--delete-existing"])
@pytest.mark.parametrize("tag", ["v1", "v1-raw"])
def test_a_failed_pull_leaves_what_was_there(scene: Scene, flag: str, tag: str) -> None:
    blobs = sorted((scene.layout / "blobs" / "sha256").iterdir(), key=lambda path: path.stat().st_size)
    for blob in blobs:
        if blob.stat().st_size > 2000 and b"aaaa" in blob.read_bytes():
            blob.write_bytes(blob.read_bytes().replace(b"aaaa", b"aaab", 1))
    shutil.rmtree(scene.root / "ours" / "weights")
    folder = scene.root / ("ours" if flag == "--force" else "foreign")
    before = snapshot(scene.root)
    assert scene.pull(folder, flag, tag=tag) == 1
    assert snapshot(scene.root) == before


class TestFiles:
    """One file as the target."""

    def test_the_same_artifact_is_kept(self, scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
        dest = scene.root / "new.carton"
        assert scene.pull(dest, tag="carton") == 0
        before = dest.stat()
        assert scene.pull(dest, "--json", tag="carton") == 0
        assert json.loads(capsys.readouterr().out.split("\n", 1)[1])["changes"]["kept"] == 1
        assert (dest.stat().st_ino, dest.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)

    def test_another_form_of_it_is_refused(self, scene: Scene) -> None:
        dest = scene.root / "new.carton"
        assert scene.pull(dest, tag="carton") == 0
        assert scene.pull(dest, "--zip-method", "zstd", tag="carton") == 1
        assert scene.pull(dest, "--zip-method", "zstd", "--force", tag="carton") == 0

    def test_a_change_makes_it_theirs(self, scene: Scene) -> None:
        dest = scene.root / "new.carton"
        assert scene.pull(dest, tag="carton") == 0
        with dest.open("ab") as file:
            file.write(b"mine")
        before = snapshot(scene.root)
        for flags in ((), ("--force",)):
            assert scene.pull(dest, *flags, tag="carton") == 1
        assert snapshot(scene.root) == before
        assert scene.pull(dest, "--overwrite", tag="carton") == 0

    @pytest.mark.parametrize("flag", ["--overwrite", "--delete-existing"])
    def test_a_link_to_its_bytes_keeps_them(self, scene: Scene, flag: str) -> None:
        os.link(scene.root / "mine.carton", scene.root / "linked")
        before = snapshot(scene.root)
        assert scene.pull(scene.root / "mine.carton", flag, "--zip-method", "zstd", tag="carton") == 0
        assert lost(before, snapshot(scene.root)) == ["mine.carton"]

    def test_without_attributes_nothing_is_ours(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        def unsupported(*_: object, **__: object) -> None:
            raise OSError("not supported")

        monkeypatch.setattr(os, "setxattr", unsupported)
        assert scene.pull(scene.root / "new.carton", tag="carton") == 0
        assert scene.pull(scene.root / "new.carton", "--force", tag="carton") == 1


class TestPacks:
    """Archives of `copy --to`."""

    def pack(self, scene: Scene, *flags: str, tag: str = "v1") -> int:
        return main(["copy", f"oci:{scene.layout}:{tag}", "--to", f"oci-archive:{scene.root}/x.tar", "-q", *flags])

    @pytest.mark.parametrize("size", [(), ("--volume-size", "64KiB")])
    def test_its_own_is_replaced_by_force(self, scene: Scene, size: tuple[str, ...]) -> None:
        assert self.pack(scene, *size, tag="carton") == 0
        before = snapshot(scene.root)
        assert self.pack(scene, *size) == 1
        assert snapshot(scene.root) == before
        assert self.pack(scene, *size, "--force") == 0
        assert all(path.startswith("x.tar") for path in lost(before, snapshot(scene.root)))

    def test_a_changed_volume_is_kept(self, scene: Scene) -> None:
        assert self.pack(scene, "--volume-size", "64KiB", tag="carton") == 0
        (scene.root / "x.tar.001").write_bytes(b"mine")
        before = snapshot(scene.root)
        assert self.pack(scene, "--volume-size", "64KiB", "--force") == 1
        assert snapshot(scene.root) == before
        assert self.pack(scene, "--volume-size", "64KiB", "--overwrite") == 0


class TestRecords:
    """The record is never part of a model."""

    def test_a_pulled_folder_has_the_digest_that_it_had(self, scene: Scene) -> None:
        for tag in ("v1", "carton"):
            first = ocibridge.inspect(f"oci:{scene.layout}:{tag}").digest
            folder = scene.root / tag
            assert scene.pull(folder, tag=tag) == 0
            assert (folder / ".ocibridge").is_file()
            fill(folder, {".x.ocibridge/new/part": b"", ".y.ocibridge-0a.part": b""})
            again = ocibridge.push(folder, f"oci:{scene.layout}:again")
            assert (again.digest, again.warnings) == (first, [])
            assert ocibridge.verify(folder).warnings == []

    def test_other_files_of_ocibridge_are_part_of_a_model(self, scene: Scene) -> None:
        fill(scene.root / "ours", {".ocibridge.toml": b""})
        assert ".ocibridge.toml" in [each.path for each in ocibridge.inspect(scene.root / "ours").files]

    def test_its_first_line_says_where_the_folder_came_from(self, scene: Scene) -> None:
        header, *rows = [json.loads(line) for line in (scene.root / "ours" / ".ocibridge").read_bytes().splitlines()]
        assert header["digest"] == ocibridge.inspect(f"oci:{scene.layout}:v1").digest
        assert header["reference"].endswith(header["digest"])
        assert header["format"] == "folder"
        assert sorted(row["path"] for row in rows) == sorted(FILES)

    def test_a_model_with_such_a_file_is_refused(self, scene: Scene) -> None:
        from ocibridge.errors import FormatError
        from ocibridge.formats.base import StoredModel, WriteOptions
        from ocibridge.formats.foldersink import FolderSink
        from ocibridge.model import FileEntry, Role

        stored = StoredModel(None, (FileEntry(".ocibridge", Role.DOC, 1),), True)
        with pytest.raises(FormatError, match="ocibridge keeps its own record"):
            FolderSink(scene.root / "new", stored, WriteOptions())


def test_a_second_mirror_run_replaces_what_the_first_wrote(scene: Scene) -> None:
    entry = {"source": f"oci:{scene.layout}:v1", "target": f"oci:{scene.root}/stores/new:v1", "type": "image"}
    Path("job.json").write_text(json.dumps({"version": 1, "sync": [entry]}))
    Path("empty.json").touch()
    written = ("--report", "r.json", "--report", "r.html", "--report", "empty.json", "--metrics", "m.prom")
    for _ in range(2):
        assert main(["mirror", "plan", "job.json", "-o", "p.json", "--journal", "j.jsonl"]) == 0
        assert main(["mirror", "run", "job.json", *written, "--journal", "j.jsonl"]) == 0
    for name in ("r.json", "empty.json"):
        assert json.loads(Path(name).read_text())["counts"]["skipped"] == 1


def test_ollama(scene: Scene, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from ..formats.ollama.samples import unpack_store

    unpack_store(scene.root / "ollama")
    first, second = "ollama:tinyllama-test:latest", "ollama:mylab/tinyllama-test:q8"
    assert main(["push", first, f"oci:{scene.layout}:ollama", "-q"]) == 0
    assert main(["push", second, f"oci:{scene.layout}:other", "-q"]) == 0
    before = snapshot(scene.root)
    for flags in ((), ("--force",)):
        assert main(["pull", f"oci:{scene.layout}:ollama", second, *flags]) == 1
        assert "mylab/tinyllama-test:q8" in capsys.readouterr().err
    assert snapshot(scene.root) == before
    assert main(["pull", f"oci:{scene.layout}:ollama", first]) == 0
    assert "1 kept" in capsys.readouterr().err
    # What was kept is still Ollama's own.
    assert main(["pull", f"oci:{scene.layout}:other", first, "--force"]) == 1
    assert "ocibridge did not write it" in capsys.readouterr().err
    assert main(["pull", f"oci:{scene.layout}:ollama", second, "--overwrite"]) == 0
    after = lost(before, snapshot(scene.root))
    assert after == ["ollama/manifests/registry.ollama.ai/mylab/tinyllama-test/q8"]
    assert CARTON.exists()
