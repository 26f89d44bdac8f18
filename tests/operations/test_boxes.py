# SPDX-License-Identifier: Apache-2.0
"""`convert` between boxes that are of different kinds: what they need, and what they cannot express."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import ocibridge
from ocibridge.cli.main import main

from .conftest import FIXTURES, IDENTITY

RUNNER = {"runner_name": "torchscript", "framework_version": "=2.0.1"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "model"
    path.mkdir()
    (path / "model.pt").write_bytes(b"weights" * 1000)
    (path / "README.md").write_text("---\nlicense: mit\n---\n# it\n")
    return path


@pytest.fixture
def hooks(tmp_path: Path) -> Path:
    path = tmp_path / "hooks"
    path.mkdir()
    (path / "load.py").write_text("def load(env):\n    return None\n")
    (path / "predict.py").write_text("def predict(env, model, inputs):\n    return None\n")
    return path


@pytest.mark.parametrize("target", ["x.carton", "x"])
def test_anything_becomes_a_carton_with_a_runner(target: str, folder: Path, tmp_path: Path) -> None:
    made = ocibridge.convert(folder, tmp_path / target, ocibridge.ConvertOptions(as_format="carton", writing=RUNNER))
    assert isinstance(made, ocibridge.ConvertReport)
    assert (made.identity or "").startswith("carton:")
    assert ocibridge.verify(tmp_path / target).identity == made.identity
    files = {file.path: file.sha256 for file in ocibridge.inspect(tmp_path / target).files}
    assert files["model/model.pt"] == hashlib.sha256(b"weights" * 1000).hexdigest()
    assert made.losses


def test_without_a_runner_it_says_what_is_needed(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ocibridge.FormatError, match="--runner-name"):
        ocibridge.convert(folder, tmp_path / "x.carton")
    assert not (tmp_path / "x.carton").exists()


def test_a_carton_becomes_an_mlarchive_with_hooks(carton: Callable[[str], Path], hooks: Path, tmp_path: Path) -> None:
    told: list[str] = []
    target = tmp_path / "x.mlarchive"
    made = ocibridge.convert(
        carton("digits.carton"), target, ocibridge.ConvertOptions(writing={"hooks": hooks}), on_losses=told.extend
    )
    assert isinstance(made, ocibridge.ConvertReport)
    assert told == made.losses
    with zipfile.ZipFile(target) as archive:
        assert {"manifest.json", "hooks/load.py", "hooks/predict.py"} <= set(archive.namelist())
        assert json.loads(archive.read("manifest.json"))["models"][0]["name"] == "digits"
    assert ocibridge.verify(target).identity == made.identity


def test_losses_are_told_before_anything_is_written(folder: Path, tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    def stop(losses: object) -> None:
        raise Stop

    before = set(tmp_path.iterdir())
    with pytest.raises(Stop):
        ocibridge.convert(folder, tmp_path / "x.carton", ocibridge.ConvertOptions(writing=RUNNER), on_losses=stop)
    assert set(tmp_path.iterdir()) == before


def test_from_an_artifact_to_a_box_and_from_a_box_to_an_artifact(carton: Callable[[str], Path], tmp_path: Path) -> None:
    layout = f"oci:{tmp_path / 'layout'}:v1"
    pushed = ocibridge.convert(carton("digits.carton"), layout)
    assert isinstance(pushed, ocibridge.ConvertReport)
    pulled = ocibridge.convert(layout, tmp_path / "back.carton")
    assert isinstance(pulled, ocibridge.ConvertReport)
    assert (pushed.identity, pulled.identity) == (IDENTITY, IDENTITY)
    again = ocibridge.convert(
        tmp_path / "back.carton", tmp_path / "again.carton", ocibridge.ConvertOptions(writing={"zip_method": "zstd"})
    )
    assert again.identity == IDENTITY


def test_a_source_that_breaks_its_promise_leaves_nothing(carton: Callable[[str], Path], tmp_path: Path) -> None:
    source = carton("digits-unpacked")
    (source / "model" / "model.pt").write_bytes(b"x" * 47281)
    out = tmp_path / "out"
    out.mkdir()
    for name in ("x.carton", "x.mlarchive", "x"):
        with pytest.raises(ocibridge.IntegrityError):
            ocibridge.convert(source, out / name)
    assert list(out.iterdir()) == []


def test_arguments_that_do_not_fit(carton: Callable[[str], Path], tmp_path: Path) -> None:
    layout = f"oci:{tmp_path / 'layout'}:v1"
    ocibridge.push(carton("digits.carton"), layout)
    with pytest.raises(ocibridge.UsageError, match="--dialect is for artifacts"):
        ocibridge.convert(layout, tmp_path / "x.carton", ocibridge.ConvertOptions(dialect="draft"))
    with pytest.raises(ocibridge.UsageError, match="--hooks is for MLSteam archives"):
        ocibridge.pull(layout, tmp_path / "x.carton", ocibridge.PullOptions(writing={"hooks": tmp_path}))
    with pytest.raises(ocibridge.UsageError, match="--runner-name is for cartons"):
        ocibridge.pull(layout, tmp_path / "x.mlarchive", ocibridge.PullOptions(writing=RUNNER))
    with pytest.raises(ocibridge.UsageError, match="the dialect is missing"):
        ocibridge.convert(layout, layout.replace(":v1", ":v2"))


def test_the_command_line(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = str(tmp_path / "x.carton")
    flags = ["--runner-name", "torchscript", "--framework-version", "=2.0.1"]
    assert main(["convert", str(folder), target, *flags]) == 0
    out, err = capsys.readouterr()
    assert out.strip() == target
    assert "warning: not carried over: " in err
    assert main(["convert", str(folder), target, *flags[:2]]) == 2
    assert main(["convert", str(folder), target, *flags]) == 1
    assert "exists" in capsys.readouterr().err
    assert main(["convert", str(folder), target, *flags, "--force", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["format"] == "carton"


def test_fixture_archives_as_folders(tmp_path: Path) -> None:
    made = ocibridge.convert(FIXTURES / "digits.mlarchive", tmp_path / "out")
    assert isinstance(made, ocibridge.ConvertReport)
    assert made.identity == made.source_identity
