# SPDX-License-Identifier: Apache-2.0
"""The real MLSteam SDK reads every archive that we write, and we read those that it writes."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ocibridge.errors import FormatError
from ocibridge.formats.base import ReadOptions
from ocibridge.formats.carton import CartonFormat
from ocibridge.formats.carton.options import CartonReadOptions
from ocibridge.formats.mlsteam import MlsteamFormat, rebuild
from ocibridge.formats.mlsteam.deflate import deflate
from ocibridge.formats.mlsteam.manifest import parse_manifest
from ocibridge.formats.mlsteam.options import MlsteamWriteOptions
from ocibridge.formats.mlsteam.skeleton import FOLDER, SKELETON
from ocibridge.model import Model, ModelInfo

from ..formats.build import contents, fill, stored_of
from ..trees import paths_in
from . import mlsteam_sdk

FIXTURES = Path(__file__).parents[1] / "fixtures"
FORMAT = MlsteamFormat()
PLAIN = ("digits.mlarchive", "digits-2024.mlarchive")

pytestmark = [pytest.mark.interop, pytest.mark.parametrize("version", mlsteam_sdk.VERSIONS)]


def read(path: Path) -> Model:
    return FORMAT.read(path, ReadOptions())


def check(version: str, path: Path, folder: Path) -> None:
    """The SDK unpacks the archive to what it holds, and accepts its manifest."""
    mlsteam_sdk.ask(version, "extract", path, folder)
    model = read(path)
    members = {name: data for name, data in contents(model).items() if not name.startswith(FOLDER)}
    found = {each.relative_to(folder).as_posix(): each.read_bytes() for each in paths_in(folder) if each.is_file()}
    assert found == members
    assert mlsteam_sdk.ask(version, "manifest", folder / "manifest.json") == model.origin["mlarchive.schema"]


@pytest.mark.parametrize("name", PLAIN)
def test_it_reads_what_we_restore(tmp_path: Path, version: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = read(FIXTURES / name)
    exact = FORMAT.sink(tmp_path / "exact.mlarchive", stored_of(model), MlsteamWriteOptions())
    fill(exact, model)
    monkeypatch.setattr(rebuild, "deflate", lambda pieces, level: deflate(pieces, 1))
    equivalent = FORMAT.sink(tmp_path / "equivalent.mlarchive", stored_of(model), MlsteamWriteOptions())
    fill(equivalent, model)
    assert (exact.note, equivalent.note) == ("exact", "equivalent")
    for note in ("exact", "equivalent"):
        check(version, tmp_path / f"{note}.mlarchive", tmp_path / note)


@pytest.mark.parametrize("method", ["stored", "deflate"])
@pytest.mark.parametrize("info", [ModelInfo(), ModelInfo(name="A b/c", version="1", format="pytorch")], ids=str)
def test_it_reads_what_we_make_of_another_format(tmp_path: Path, version: str, method: str, info: ModelInfo) -> None:
    model = replace(CartonFormat().read(FIXTURES / "digits.carton", CartonReadOptions()), info=info)
    fill(FORMAT.sink(tmp_path / "x.mlarchive", stored_of(model), MlsteamWriteOptions(zip_method=method)), model)
    check(version, tmp_path / "x.mlarchive", tmp_path / "out")


def test_it_reads_what_we_make_with_hooks(tmp_path: Path, version: str) -> None:
    hooks = {"load.py": b"def load(env, **kwargs): ...\n", "predict.py": b"def predict(env, *args): ...\n"}
    (tmp_path / "hooks").mkdir()
    for name, data in hooks.items():
        (tmp_path / "hooks" / name).write_bytes(data)
    model = CartonFormat().read(FIXTURES / "digits.carton", CartonReadOptions())
    options = MlsteamWriteOptions(zip_method="deflate", hooks=tmp_path / "hooks")
    fill(FORMAT.sink(tmp_path / "x.mlarchive", stored_of(model), options), model)
    check(version, tmp_path / "x.mlarchive", tmp_path / "out")
    assert {each.name: each.read_bytes() for each in (tmp_path / "out" / "hooks").iterdir()} == hooks


def test_we_read_what_it_builds(tmp_path: Path, version: str) -> None:
    source = tmp_path / "source"
    files = {"models/m/a.bin": bytes(range(256)) * 99, "models/m/sub/labels.txt": b"a\n", "models/m/empty/x": b""}
    files |= {
        "hooks/load.py": b"def load(*a, **k): ...\n",
        "src/net/__init__.py": b"",
        "src/net/__pycache__/x.pyc": b"?",
    }
    for name, data in files.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(data)
    mlsteam_sdk.ask(version, "generate", source / "manifest.json", "m", "7")
    mlsteam_sdk.ask(version, "build", tmp_path / "x.mlarchive", source)
    model = read(tmp_path / "x.mlarchive")
    assert (model.info.name, model.info.version) == ("m", "7")
    assert "gives its first model no version" in model.warnings[0]
    found = contents(model)
    assert found.keys() - {"manifest.json", SKELETON} == {name for name in files if "pycache" not in name}
    assert all(found[name] == data for name, data in files.items() if "pycache" not in name)
    back = FORMAT.sink(tmp_path / "back.mlarchive", stored_of(model), MlsteamWriteOptions())
    fill(back, model)
    assert back.note == "exact"
    assert (tmp_path / "back.mlarchive").read_bytes() == (tmp_path / "x.mlarchive").read_bytes()


ENTRY = {"name": "m", "version": "1", "framework": "pytorch"}
NEW = {"schema": "v2024.1", "version": "1", "models": [{"name": "m"}]}


@pytest.mark.parametrize(
    "document",
    [
        {"models": [ENTRY]},
        {"models": []},
        {"schema": "v2023.1", "models": [ENTRY]},
        {"models": [{**ENTRY, "more": 1}]},
        {"models": [{**ENTRY, "framework": "onnx"}]},
        {"models": [{**ENTRY, "name": ""}]},
        {"models": [{"name": "m", "version": "1"}]},
        {"models": [{**ENTRY, "inputs": [{}], "outputs": [{"type": "int"}]}]},
        {"models": [{**ENTRY, "enc_model_cleanup": "later"}]},
        {"models": [{**ENTRY, "enc_model_cleanup_files": ["/etc"]}]},
        {"models": [{**ENTRY, "enc_model_cleanup_files": [""]}]},
        {"models": [ENTRY], "name": "x"},
        NEW,
        {**NEW, "name": 7},
        {**NEW, "version": 7},
        {**NEW, "models": []},
        {**NEW, "models": [{"name": 7}]},
        {**NEW, "models": [{}]},
        {**NEW, "models": [{"name": "m", "loader": "hooks/load.py"}]},
        {**NEW, "models": [{"name": "m", "loader": "../load.py"}]},
        {**NEW, "models": [{"name": "m", "loader": {"file": "a/../../b.py"}}]},
        {**NEW, "models": [{"name": "m", "loader": {"built-in": "PyTorchLoader", "x": 1}}]},
        {**NEW, "models": [{"name": "m", "framework": "onnx"}]},
        {**NEW, "services": [{"name": "a", "predictor": "p.py"}]},
        {**NEW, "services": [{}]},
        {**NEW, "file_integrity_check": {"models": "enforce"}},
        {**NEW, "file_integrity_check": {"models": "whatever"}},
        {**NEW, "in_memory_model_extraction": "yes"},
        {**NEW, "more": 1},
        {"schema": "v2024.1", "models": [{"name": "m"}]},
        {"schema": "v2022.1", "models": []},
        {},
    ],
    ids=str,
)
def test_we_judge_manifests_as_it_does(tmp_path: Path, version: str, document: dict[str, Any]) -> None:
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    try:
        theirs: str | None = mlsteam_sdk.ask(version, "manifest", path)
    except subprocess.SubprocessError as exc:
        assert "Invalid" in str(exc) or "manifest schema validation error" in str(exc)
        theirs = None
    try:
        ours: str | None = parse_manifest(path.read_bytes(), "x", 1 << 20).schema
    except FormatError:
        ours = None
    assert ours == theirs
