# SPDX-License-Identifier: Apache-2.0
"""`diff`: files, metadata and layers of two models."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import ocibridge
from ocibridge import AuthenticationError, MemoryStore, PushOptions, StoreReference
from ocibridge.cli.main import main
from ocibridge.oci import MEDIA_TYPE_MANIFEST

from ..registry import PASSWORD, USER, RegistryServer

FIXTURES = Path(__file__).parent.parent / "fixtures"


@pytest.fixture
def models(tmp_path: Path) -> tuple[Path, Path]:
    """A folder, and another one with a file added, a file removed and a file changed."""
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    (one / "config.json").write_text('{"model_type": "llama"}')
    (one / "model.bin").write_bytes(bytes(100_000))
    (one / "notes.txt").write_text("notes")
    (one / "same.bin").write_bytes(bytes(200_000))
    shutil.copytree(one, two)
    (two / "notes.txt").unlink()
    (two / "more.txt").write_text("more")
    (two / "model.bin").write_bytes(bytes(50_000) + b"x" + bytes(49_999))
    return one, two


def changes(report: ocibridge.DiffReport) -> dict[str, str]:
    return {each.path: each.change for each in report.files}


CHANGES = {"more.txt": "added", "notes.txt": "removed", "model.bin": "changed"}


def test_every_pair_of_sides(models: tuple[Path, Path], registry: RegistryServer, repository: str) -> None:
    one, two = models
    stored = [f"{registry.host}/{repository}:{path.name}" for path in models]
    for path, reference in zip(models, stored, strict=True):
        ocibridge.push(path, reference)
    for before in (one, stored[0]):
        for after in (two, stored[1]):
            report = ocibridge.diff(before, after)
            assert (report.same, changes(report), report.same_count) == (False, CHANGES, 2)
            assert (report.layers is None) is not (before == stored[0] and after == stored[1])
        assert ocibridge.diff(before, one).same
        assert ocibridge.diff(before, stored[0]).same
    layers = ocibridge.diff(stored[0], stored[1]).layers
    assert layers is not None
    assert (layers.shared, layers.added, layers.removed) == (2, 2, 2)
    assert layers.added_size > 100_000
    assert layers.shared_size > 200_000


def test_what_no_manifest_says_is_read(models: tuple[Path, Path]) -> None:
    store = MemoryStore()
    for path in models:
        ocibridge.push(path, StoreReference(store, path.name), PushOptions(compress="zstd"))
        manifest = json.loads(store.fetch_manifest(path.name)[1])
        for layer in manifest["layers"]:
            del layer["annotations"]["org.ocibridge.files"]
        store.push_manifest(json.dumps(manifest).encode(), MEDIA_TYPE_MANIFEST, path.name)
    report = ocibridge.diff(StoreReference(store, "one"), StoreReference(store, "two"))
    assert changes(report) == CHANGES


def test_no_layer_is_fetched_that_is_not_needed(models: tuple[Path, Path], tmp_path: Path) -> None:
    stored = [f"oci:{tmp_path}/layout:{path.name}" for path in models]
    for path, reference in zip(models, stored, strict=True):
        ocibridge.push(path, reference)
    for blob in (tmp_path / "layout" / "blobs" / "sha256").iterdir():
        if blob.stat().st_size > 50_000:
            blob.unlink()
    assert changes(ocibridge.diff(stored[0], stored[1])) == CHANGES
    assert changes(ocibridge.diff(models[0], stored[1])) == CHANGES


def test_metadata_and_annotations(models: tuple[Path, Path], tmp_path: Path) -> None:
    one, two, three = (f"oci:{tmp_path}/layout:{number}" for number in range(3))
    ocibridge.push(models[0], one, PushOptions(annotations={"a": "1", "b": "2"}))
    (models[0] / "config.json").write_text('{"model_type": "qwen2"}')
    ocibridge.push(models[0], two, PushOptions(annotations={"a": "1", "b": "3"}))
    report = ocibridge.diff(one, two)
    assert [(each.key, each.before, each.after) for each in report.annotations] == [("b", "2", "3")]
    assert [(each.key, each.before, each.after) for each in report.metadata] == [("family", "llama", "qwen2")]
    ocibridge.push(models[0], three, PushOptions(annotations={"a": "1", "b": "3"}, dialect="modelpack"))
    report = ocibridge.diff(two, three)
    assert (report.same, report.files) == (False, [])
    assert ("dialect", "cnai", "modelpack") in [(each.key, each.before, each.after) for each in report.metadata]


def test_credentials_reach_one_host(
    models: tuple[Path, Path], registry: RegistryServer, auth_registry: RegistryServer, repository: str
) -> None:
    options = ocibridge.RegistryOptions(username=USER, password=PASSWORD)
    open_one, closed = f"{registry.host}/{repository}:v1", f"{auth_registry.host}/{repository}:v1"
    ocibridge.push(models[0], open_one)
    ocibridge.push(models[0], closed, registry=options)
    assert ocibridge.diff(open_one, closed, registry=options).same
    assert ocibridge.verify(closed, ocibridge.VerifyOptions(against=open_one), registry=options).verified
    with pytest.raises(AuthenticationError):  # they are for the second side
        ocibridge.diff(closed, open_one, registry=options)
    with pytest.raises(AuthenticationError):
        ocibridge.verify(open_one, ocibridge.VerifyOptions(against=closed), registry=options)


@pytest.mark.parametrize("name", ["digits.carton", "digits.mlarchive"])
def test_archives(tmp_path: Path, name: str) -> None:
    reference = f"oci:{tmp_path}/layout:v1"
    ocibridge.push(FIXTURES / name, reference)
    ocibridge.pull(reference, tmp_path / "back")
    assert ocibridge.diff(FIXTURES / name, reference).same
    assert ocibridge.diff(reference, tmp_path / "back").files == []


def test_the_command(models: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = models
    stored = [f"oci:{tmp_path}/layout:{path.name}" for path in models]
    pushed = [ocibridge.push(path, reference) for path, reference in zip(models, stored, strict=True)]
    assert main(["diff", *stored]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:6] == [
        f"--- {pushed[0].reference}",
        f"+++ {pushed[1].reference}",
        "files: 1 added, 1 removed, 1 changed, 2 the same",
        "  M  97.7 KiB  model.bin",
        "  A  4 B       more.txt",
        "  D  5 B       notes.txt",
    ]
    assert lines[6].startswith("layers: 2 shared (199.0 KiB); an update from A to B moves 2 layers (")
    assert (main(["diff", *stored, "-q"]), capsys.readouterr().out) == (1, "")
    assert (main(["diff", str(one), stored[0]]), capsys.readouterr().out) == (0, "")
    assert main(["diff", str(one), str(two), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["sameCount"] == 2
