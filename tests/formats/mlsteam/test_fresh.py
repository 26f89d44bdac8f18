# SPDX-License-Identifier: Apache-2.0
"""New archives, from models of other tools and formats."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ocibridge.content import BytesContent
from ocibridge.errors import FormatError, IntegrityError, LimitError, UsageError
from ocibridge.formats.base import ReadOptions, Sink, WriteOptions
from ocibridge.formats.carton import CartonFormat
from ocibridge.formats.mlsteam.skeleton import SKELETON
from ocibridge.model import FileEntry, Model, ModelFile, ModelInfo, Role, StoredModel
from ocibridge.settings import Limits

from ..build import contents, fill, stored_of
from .archives import FIXTURES, FORMAT, MANIFEST, PLAIN, read


def foreign(files: dict[str, bytes], info: ModelInfo = ModelInfo(name="My Model/1", version="3")) -> Model:  # noqa: B008
    return Model(
        "other", tuple(ModelFile(name, Role.WEIGHT, BytesContent(data)) for name, data in files.items()), info=info
    )


def target(dest: Path, model: Model, options: WriteOptions | None = None) -> Sink:
    stored = replace(stored_of(model), format=None)
    return FORMAT.sink(dest, stored, options or WriteOptions())


@pytest.mark.parametrize("method", ["stored", "deflate"])
def test_a_foreign_model_gets_a_manifest_and_its_folder(tmp_path: Path, method: str) -> None:
    files = {"b.gguf": b"G" * 1000, "sub/a.txt": b"1", "hooks/load.py": b"", "src/x.py": b"", "models": b"a file"}
    model = foreign(files)
    dest = tmp_path / "out.mlarchive"
    identity = fill(target(dest, model, WriteOptions(zip_method=method)), model)
    found = read(dest)
    assert found.identity == identity
    assert [file.path for file in found.files] == [
        SKELETON,
        "manifest.json",
        "models/My-Model-1/b.gguf",
        "models/My-Model-1/models",
        "models/My-Model-1/sub/a.txt",
        "hooks/load.py",
        "src/x.py",
    ]
    manifest = json.loads(contents(found)["manifest.json"])
    assert manifest == {
        "schema": "v2024.1",
        "name": "My Model/1",
        "version": "3",
        "models": [{"name": "My-Model-1", "version": "3"}],
    }
    assert list(tmp_path.iterdir()) == [dest]


@pytest.mark.parametrize("name", [None, "..", "///", "...", "é" * 300])
def test_any_name_gives_a_folder(tmp_path: Path, name: str | None) -> None:
    model = foreign({"a.bin": b""}, ModelInfo(name=name))
    fill(target(tmp_path / "out.mlarchive", model), model)
    assert read(tmp_path / "out.mlarchive").files[2].path.endswith("/a.bin")


def test_a_model_with_its_own_manifest_keeps_its_paths(tmp_path: Path) -> None:
    model = foreign({"models/b": b"1", "extra": b"2", "manifest.json": MANIFEST})
    dest = tmp_path / "out.mlarchive"
    fill(target(dest, model), model)
    found = read(dest)
    assert [file.path for file in found.files][1:] == ["manifest.json", "models/b", "extra"]
    assert contents(found)["manifest.json"] == MANIFEST


def test_an_archive_that_lost_its_skeleton(tmp_path: Path) -> None:
    model = read(FIXTURES / PLAIN[1])
    stripped = replace(model, files=model.files[1:], identity=None)
    dest = tmp_path / "out.mlarchive"
    fill(target(dest, stripped), stripped)
    assert contents(read(dest)).items() >= contents(stripped).items()


def test_a_carton(tmp_path: Path) -> None:
    model = CartonFormat().read(FIXTURES / "digits.carton", ReadOptions())
    dest = tmp_path / "out.mlarchive"
    fill(FORMAT.sink(dest, stored_of(model), WriteOptions()), model)
    found = read(dest)
    assert contents(found)["models/digits/model/model.pt"] == contents(model)["model/model.pt"]
    assert found.info.name == "digits"


def test_the_same_model_gives_the_same_archive(tmp_path: Path) -> None:
    model = foreign({"a": b"1", "b": b"2"})
    for name in ("1.mlarchive", "2.mlarchive"):
        fill(target(tmp_path / name, model), model)
    assert (tmp_path / "1.mlarchive").read_bytes() == (tmp_path / "2.mlarchive").read_bytes()


def test_what_the_sdk_cannot_read_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="compressed by zstd"):
        target(tmp_path / "out.mlarchive", foreign({"a": b""}), WriteOptions(zip_method="zstd"))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"manifest.json": b'{"manifest_version": 3}'}, "manifest.json is not valid"),
        ({"k.enckey": b""}, "is a key file"),
        ({"A": b"", "a": b""}, "collide"),
    ],
)
def test_refusals(tmp_path: Path, files: dict[str, bytes], message: str) -> None:
    model = foreign(files)
    stored = replace(stored_of(model), format=None)
    with pytest.raises(FormatError, match=message):
        fill(FORMAT.sink(tmp_path / "out.mlarchive", stored, WriteOptions()), model)
    assert list(tmp_path.iterdir()) == []


def test_a_manifest_that_is_too_large(tmp_path: Path) -> None:
    model = foreign({"manifest.json": MANIFEST})
    with pytest.raises(LimitError, match="more than the 10 accepted"):
        fill(target(tmp_path / "out.mlarchive", model, WriteOptions(limits=Limits(metadata=10))), model)


def test_what_was_not_announced(tmp_path: Path) -> None:
    stored = StoredModel(None, (), False)
    model = foreign({"manifest.json": MANIFEST})
    with pytest.raises(FormatError, match="did not announce"):
        fill(FORMAT.sink(tmp_path / "out.mlarchive", stored, WriteOptions()), model)
    announced = StoredModel(None, (FileEntry("manifest.json", Role.DOC),), False)
    with pytest.raises(FormatError, match="did not arrive"):
        fill(FORMAT.sink(tmp_path / "out.mlarchive", announced, WriteOptions()), foreign({"a": b""}))
    with pytest.raises(FormatError, match="arrives twice"):
        twice = foreign({"a": b""})
        fill(FORMAT.sink(tmp_path / "out.mlarchive", stored, WriteOptions()), replace(twice, files=twice.files * 2))
    with pytest.raises(IntegrityError, match="not the 9 promised"):
        with FORMAT.sink(tmp_path / "out.mlarchive", stored, WriteOptions()) as sink:
            sink.write("a", 9, BytesContent(b"1").open())
    assert list(tmp_path.iterdir()) == []
