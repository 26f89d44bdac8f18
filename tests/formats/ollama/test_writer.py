# SPDX-License-Identifier: Apache-2.0
"""Writing: the models of the fixtures come back byte for byte, and nothing half-done ever looks finished."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ocibridge.errors import DestinationError, FormatError, IntegrityError, InvalidReference, LimitError
from ocibridge.formats.base import WriteOptions
from ocibridge.formats.ollama.local import LocalOllama, read_local
from ocibridge.formats.ollama.names import parse_ollama_name
from ocibridge.formats.ollama.options import OllamaReadOptions
from ocibridge.formats.ollama.writer import OllamaSink
from ocibridge.io.content import BytesContent, read_all
from ocibridge.io.existing import Existing, TargetRules
from ocibridge.model import Model
from ocibridge.settings import Limits

from ..build import fill, stored_of
from .samples import IDENTITY, MODELS, entry, sink, tree

OPTIONS = OllamaReadOptions()


def restore(source: Model, name: str, root: Path, *, verified: bool = False, reverse: bool = False, **more: Any) -> str:
    with sink(name, source, root, **more) as target:
        for file in reversed(source.files) if reverse else source.files:
            with file.content.open() as reader:
                target.write(file.path, file.size, reader, file.sha256 if verified else None)
        return str(target.commit())


@pytest.mark.parametrize("verified", [True, False])
@pytest.mark.parametrize("reverse", [True, False])
def test_every_model_of_the_fixtures_comes_back(store: Path, tmp_path: Path, verified: bool, reverse: bool) -> None:
    for name, facts in MODELS.items():
        source = read_local(name, OPTIONS, store)
        identity = restore(source, name, tmp_path / "new", verified=verified, reverse=reverse)
        assert identity == facts["manifest_digest"].replace("sha256:", "ollama:")
    found = {path: hashlib.sha256(data).hexdigest() for path, data in tree(tmp_path / "new").items()}
    assert found == IDENTITY["members"]
    assert tree(tmp_path / "new") == tree(store)
    for path in (tmp_path / "new").rglob("*"):
        if path.is_file() and os.name == "posix":
            assert stat.S_IMODE(path.stat().st_mode) == 0o644


@pytest.fixture
def small(store: Path) -> Model:
    return read_local("tinyllama-test", OPTIONS, store)


def test_files_arrive_at_once(store: Path, tmp_path: Path) -> None:
    source = read_local("x/layers-only-test", OPTIONS, store)
    with sink("x/layers-only-test", source, tmp_path) as target, ThreadPoolExecutor(8) as pool:
        assert target.parallel
        for _ in pool.map(
            lambda file: target.write(file.path, file.size, file.content.open(), file.sha256), source.files
        ):
            pass
        assert target.commit() == source.identity
    assert len(list((tmp_path / "blobs").iterdir())) == len({file.sha256 for file in source.files}) - 1


def test_vouched_bytes_are_not_hashed(small: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[int] = []
    sha256 = hashlib.sha256

    class Counting:
        def __init__(self, data: bytes = b"") -> None:
            self._inner = sha256(data)
            hashed.append(len(data))

        def update(self, data: Any) -> None:
            hashed.append(len(data))
            self._inner.update(data)

        def hexdigest(self) -> str:
            return self._inner.hexdigest()

    monkeypatch.setattr(hashlib, "sha256", Counting)
    restore(small, "m", tmp_path, verified=True)
    assert sum(hashed) == small.files[0].size  # the manifest, for the identity


def test_the_default_folder(small: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "a" / "b"))
    fill(OllamaSink("m", stored_of(small), WriteOptions()), small)
    assert read_local("m", OPTIONS).identity == small.identity


def test_nothing_stays_of_what_was_not_finished(small: Model, tmp_path: Path) -> None:
    root = tmp_path / "a" / "b"
    with sink("m", small, root) as target:
        assert root.exists()
        target.write("LICENSE", 1, BytesContent(b"x").open())
    assert not (tmp_path / "a").exists()
    root.mkdir(parents=True)
    with sink("m", small, root):
        pass
    assert tree(tmp_path) == {"a/b/": b""}


def test_until_the_end_a_server_sees_nothing(small: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with sink("m", small, tmp_path) as target:
        for file in small.files:
            target.write(file.path, file.size, file.content.open())
        assert not (tmp_path / "blobs").exists()
        assert list(tmp_path.glob("manifests/*/*/*/*")) == []
        moves: list[str] = []
        replace = Path.replace

        def watched(self: Path, to: Path) -> Path:
            moves.append(Path(to).relative_to(tmp_path).parts[0])
            assert self.parent.suffix == ".ocibridge"
            assert self.parent.parent == tmp_path
            return replace(self, to)

        monkeypatch.setattr(Path, "replace", watched)
        target.commit()
    assert moves == ["blobs"] * 6 + ["manifests"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["blobs", "manifests"]


@pytest.mark.parametrize("moves", range(7))
def test_a_crash_while_it_is_published(
    small: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moves: int
) -> None:
    replace = Path.replace
    left = moves

    def failing(self: Path, to: Path) -> Path:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(28, "No space left on device")
        return replace(self, to)

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(DestinationError, match="no space left"):
        restore(small, "m", tmp_path)
    assert list(LocalOllama(tmp_path).names()) == []
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    for path in tmp_path.glob("blobs/*"):
        assert path.name == "sha256-" + hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.undo()
    assert restore(small, "m", tmp_path) == small.identity


def test_a_damaged_blob_is_replaced(small: Model, tmp_path: Path) -> None:
    restore(small, "m", tmp_path)
    blob = tmp_path / "blobs" / f"sha256-{small.files[2].sha256}"
    good = blob.read_bytes()
    blob.write_bytes(b"\0" * len(good))
    restore(small, "m", tmp_path)
    assert blob.read_bytes() == good


def test_blobs_that_are_there_need_not_arrive(small: Model, tmp_path: Path) -> None:
    restore(small, "m", tmp_path)
    with sink("m", small, tmp_path) as target:
        target.write("ollama/manifest.json", small.files[0].size, small.files[0].content.open())
        assert target.commit() == small.identity
    blob = tmp_path / "blobs" / f"sha256-{small.files[2].sha256}"
    blob.write_bytes(b"\0" * blob.stat().st_size)
    with sink("m", small, tmp_path) as target:
        target.write("ollama/manifest.json", small.files[0].size, small.files[0].content.open())
        with pytest.raises(IntegrityError, match="did not arrive"):
            target.commit()


def test_another_model_of_that_name(store: Path, small: Model, tmp_path: Path) -> None:
    other = read_local("mylab/tinyllama-test:q8", OPTIONS, store)
    restore(small, "m", tmp_path)
    assert restore(small, "M", tmp_path) == small.identity
    before = tree(tmp_path)
    for changes in ({}, {"identity": None}, {"format": "folder"}):
        with pytest.raises(DestinationError, match=r"already an Ollama model m:latest.*--overwrite"):
            sink("M:LATEST", other, tmp_path, **changes)
    assert tree(tmp_path) == before
    restore(other, "M:LATEST", tmp_path, rules=TargetRules(Existing.OVERWRITE))
    assert [name.short for name in LocalOllama(tmp_path).names()] == ["m:latest"]
    assert read_local("m", OPTIONS, tmp_path).identity == other.identity


def test_a_model_that_appears_meanwhile(store: Path, small: Model, tmp_path: Path) -> None:
    other = read_local("mylab/tinyllama-test:q8", OPTIONS, store)
    with sink("m", small, tmp_path) as target:
        for file in small.files:
            target.write(file.path, file.size, file.content.open())
        restore(other, "n", tmp_path)
        models = LocalOllama(tmp_path)
        there = models.manifest_path(parse_ollama_name("n"))
        there.parent.rename(models.manifest_path(parse_ollama_name("m")).parent)
        with pytest.raises(DestinationError, match="already"):
            target.commit()
    assert read_local("m", OPTIONS, tmp_path).identity == other.identity


def test_a_broken_manifest_is_not_replaced_unasked(small: Model, tmp_path: Path) -> None:
    path = LocalOllama(tmp_path).manifest_path(parse_ollama_name("m"))
    path.parent.mkdir(parents=True)
    path.write_bytes(b"")
    with pytest.raises(DestinationError):
        sink("m", small, tmp_path)
    assert restore(small, "m", tmp_path, rules=TargetRules(Existing.OVERWRITE)) == small.identity


def refused(source: Model, root: Path, *, skip: str = "", replace: dict[str, bytes] | None = None, **more: Any) -> None:
    """Restore with one file missing or others in place of some; nothing may stay."""
    with sink("m", source, root / "new", **more) as target:
        for file in source.files:
            if file.path != skip:
                data = (replace or {}).get(file.path, read_all(file.content))
                target.write(file.path, len(data), BytesContent(data).open())
        target.commit()


@pytest.mark.parametrize("path", ["model.gguf", "ollama/config.json", "LICENSE"])
def test_blobs_that_are_missing_or_other(small: Model, tmp_path: Path, path: str) -> None:
    for changes in ({"skip": path}, {"replace": {path: b"other"}}):
        with pytest.raises(IntegrityError, match="did not arrive"):
            refused(small, tmp_path, **changes)
    assert tree(tmp_path) == {}


def test_manifests_that_are_refused(store: Path, small: Model, tmp_path: Path) -> None:
    other = read_local("mylab/tinyllama-test:q8", OPTIONS, store)
    manifest = {"ollama/manifest.json": read_all(other.files[0].content)}
    with pytest.raises(IntegrityError, match="was published as"):
        refused(small, tmp_path, replace=manifest)
    with pytest.raises(FormatError):
        refused(small, tmp_path, replace={"ollama/manifest.json": b"{}"})
    document = json.loads(read_all(small.files[0].content))
    document["layers"][0]["size"] += 1
    wrong = {"ollama/manifest.json": json.dumps(document).encode()}
    with pytest.raises(IntegrityError, match="129952 bytes, the manifest says 129953"):
        refused(small, tmp_path, replace=wrong, identity=None)
    document["layers"][0]["digest"] = "sha256:../../../x"
    wrong = {"ollama/manifest.json": json.dumps(document).encode()}
    with pytest.raises(FormatError, match="digest"):
        refused(small, tmp_path, replace=wrong, identity=None)
    assert tree(tmp_path) == {}


def test_a_folder_that_once_was_an_ollama_model(small: Model, tmp_path: Path) -> None:
    assert restore(small, "m", tmp_path, format="folder", identity="folder:1", complete=False) == small.identity


def test_files_that_are_refused(small: Model, tmp_path: Path) -> None:
    stored = stored_of(small)
    with OllamaSink("m", stored, WriteOptions(limits=Limits(manifest=100)), tmp_path) as target:
        with pytest.raises(LimitError):
            target.write("ollama/manifest.json", 101, BytesContent(b"x" * 101).open())
        for data in (b"x", b"xyz"):
            for path in ("a", "ollama/manifest.json"):
                with pytest.raises(IntegrityError, match="not the 2 promised"):
                    target.write(path, 2, BytesContent(data).open())
        target.write("a", 2, BytesContent(b"ab").open())
        with pytest.raises(FormatError, match="twice"):
            target.write("a", 2, BytesContent(b"ab").open())
        with pytest.raises(FormatError):
            target.write("../a", 2, BytesContent(b"ab").open())
    assert tree(tmp_path) == {}
    with pytest.raises(InvalidReference):
        sink("../m", small, tmp_path)


def test_a_folder_that_cannot_be_written(small: Model, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DestinationError):
        sink("m", small, tmp_path / "file")
    with pytest.raises(DestinationError):
        sink("m", small, tmp_path / "file" / "below")


def test_two_pulls_at_once(small: Model, tmp_path: Path) -> None:
    barrier = threading.Barrier(2)

    def one(name: str) -> str:
        with sink(name, small, tmp_path) as target:
            for file in small.files:
                target.write(file.path, file.size, file.content.open(), file.sha256)
            barrier.wait(30)
            return str(target.commit())

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(one, ["a", "b"])) == [small.identity] * 2
    assert [name.short for name in LocalOllama(tmp_path).names()] == ["a:latest", "b:latest"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["blobs", "manifests"]


def test_no_weights_that_ollama_could_run(small: Model, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"no GGUF file.*folder"):
        sink("m", small, tmp_path, files=(entry("model.safetensors"),))
    with sink("m", small, tmp_path, files=(), complete=False, format=None, identity=None) as target:
        target.write("model.safetensors", 1, BytesContent(b"x").open())
        with pytest.raises(FormatError, match="no GGUF file"):
            target.commit()
    assert tree(tmp_path) == {}
