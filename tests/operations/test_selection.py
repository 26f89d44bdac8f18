# SPDX-License-Identifier: Apache-2.0
"""Partial pulls: `--include` and `--exclude`."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ocibridge import ConvertOptions, PullOptions, PushOptions, convert, inspect, pull, push
from ocibridge.cli.main import main
from ocibridge.errors import FormatError, NetworkError, UsageError
from ocibridge.formats.foldersink import FolderSink

from ..trees import paths_in

ALL = ["README.md", "config.json", "onnx/big.onnx", "onnx/small.onnx", "tokenizer.json", "weights.safetensors"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "folder"
    for name in ALL:
        (found / name).parent.mkdir(parents=True, exist_ok=True)
        (found / name).write_bytes(name.encode() * 100)
    (found / "config.json").write_text("{}")
    return found


def files_below(folder: Path) -> list[str]:
    return sorted(each.relative_to(folder).as_posix() for each in paths_in(folder) if each.is_file())


SELECTIONS = [
    (["*.json"], [], ["config.json", "tokenizer.json"]),
    ([], ["*.onnx", "*.safetensors"], ["README.md", "config.json", "tokenizer.json"]),
    (["onnx"], [], ["onnx/big.onnx", "onnx/small.onnx"]),
    (["onnx/"], ["big.*"], ["onnx/small.onnx"]),
    (["onnx/*"], [], ["onnx/big.onnx", "onnx/small.onnx"]),
    (["/*.json", "README.md"], ["tokenizer.json"], ["README.md", "config.json"]),
]


@pytest.mark.parametrize(("include", "exclude", "expected"), SELECTIONS, ids=str)
@pytest.mark.parametrize("packing", [{}, {"layers": "raw-files"}, {"compress": "zstd"}], ids=str)
def test_selected_files(
    tmp_path: Path, folder: Path, include: list[str], exclude: list[str], expected: list[str], packing: dict[str, Any]
) -> None:
    reference = f"oci:{tmp_path}/layout:v1"
    push(folder, reference, PushOptions(**packing))
    report = pull(reference, tmp_path / "back", PullOptions(include=include, exclude=exclude))
    assert files_below(tmp_path / "back") == expected
    for name in expected:
        assert (tmp_path / "back" / name).read_bytes() == (folder / name).read_bytes()
    assert (report.file_count, report.selected_from, report.identity) == (len(expected), len(ALL), None)

    again = convert(folder, tmp_path / "direct", ConvertOptions(include=include, exclude=exclude))
    assert files_below(tmp_path / "direct") == expected
    assert json.loads(again.to_json())["fileCount"] == len(expected)


def test_layers_without_a_selected_file_are_not_read(tmp_path: Path, folder: Path) -> None:
    reference = f"oci:{tmp_path}/layout:v1"
    push(folder, reference, PushOptions(layers="raw-files"))
    for each in inspect(reference).files:
        if each.path != "config.json":
            (tmp_path / "layout/blobs/sha256" / str(each.sha256)).unlink()
    pull(reference, tmp_path / "back", PullOptions(include=["config.json"]))
    assert files_below(tmp_path / "back") == ["config.json"]


def test_several_files_of_one_tar_layer(tmp_path: Path, folder: Path) -> None:
    reference = f"oci:{tmp_path}/layout:v1"
    push(folder, reference, PushOptions(max_layers=4))
    assert max(each.file_count for each in inspect(reference).layers) > 1
    for number, name in enumerate(ALL):
        pull(reference, tmp_path / f"back{number}", PullOptions(include=[f"/{name}"]))
        assert files_below(tmp_path / f"back{number}") == [name]


def test_what_a_smaller_selection_has_left_is_no_part_of_a_larger_one(tmp_path: Path, folder: Path) -> None:
    reference = f"oci:{tmp_path}/layout:v1"
    push(folder, reference)
    pull(reference, tmp_path / "back", PullOptions(include=["*.json"]))
    pull(reference, tmp_path / "other")
    assert files_below(tmp_path / "other") == ALL


@pytest.mark.parametrize("compress", ["none", "gzip"])
@pytest.mark.parametrize("name", ["/a.bin", "/b.bin", "/c.bin"])
def test_an_interrupted_partial_pull_is_resumed(
    tmp_path: Path, compress: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for number, each in enumerate(("a.bin", "b.bin", "c.bin")):
        (folder / each).write_bytes(bytes([number]) * (3 << 20))
    reference = f"oci:{tmp_path}/layout:v1"
    push(folder, reference, PushOptions(max_layers=1, compress=compress))
    assert len(inspect(reference).layers) == 1
    options = PullOptions(include=[name])

    def broken(_: FolderSink) -> None:
        raise NetworkError("the line broke")

    with monkeypatch.context() as patched:
        patched.setattr(FolderSink, "commit", broken)
        with pytest.raises(NetworkError):
            pull(reference, tmp_path / "back", options)
    assert (tmp_path / ".back.ocibridge").exists()
    pull(reference, tmp_path / "back", options)
    assert files_below(tmp_path / "back") == [name[1:]]
    assert (tmp_path / "back" / name[1:]).read_bytes() == (folder / name[1:]).read_bytes()
    assert not (tmp_path / ".back.ocibridge").exists()


def test_part_of_a_carton_has_no_identity(tmp_path: Path, carton: Callable[[str], Path]) -> None:
    reference = f"oci:{tmp_path}/layout:v1"
    push(carton("digits.carton"), reference)
    report = pull(reference, tmp_path / "back", PullOptions(include=["model/assets"]))
    assert report.identity is None
    with zipfile.ZipFile(carton("digits-stored.carton")) as archive:
        assert (tmp_path / "back/model/assets/labels.txt").read_bytes() == archive.read("model/labels.txt")
    assert not (tmp_path / "back/model/assets/labels.txt").is_symlink()
    assert not (tmp_path / "back/MANIFEST").exists()


@pytest.mark.parametrize("target", ["x.carton", "x.mlarchive", "ollama:x"])
def test_targets_that_need_every_file(tmp_path: Path, folder: Path, store: Path, target: str) -> None:
    reference = f"oci:{tmp_path}/layout:v1"
    push(folder, reference)
    place = target if ":" in target else str(tmp_path / target)
    with pytest.raises(UsageError, match="needs all files of the model, and --include and --exclude leave some out"):
        pull(reference, place, PullOptions(include=["*.json"]))
    with pytest.raises(UsageError, match="needs all files of the model"):
        convert(folder, place, ConvertOptions(exclude=["*.json"]))


def test_a_thin_carton_needs_every_file(tmp_path: Path, folder: Path) -> None:
    reference = f"oci:{tmp_path}/layout:v1"
    push(folder, reference)
    with pytest.raises(UsageError, match="leave out --include and --exclude"):
        pull(reference, tmp_path / "x.carton", PullOptions(thin=True, include=["*.json"]))


def test_no_file_at_all(tmp_path: Path, folder: Path) -> None:
    reference = f"oci:{tmp_path}/layout:v1"
    push(folder, reference)
    message = r"no file is selected .* there are: 'README\.md', 'config\.json', 'onnx/"
    with pytest.raises(FormatError, match=message):
        pull(reference, tmp_path / "a/back", PullOptions(include=["*.gguf"]))
    with pytest.raises(FormatError, match=message):
        convert(folder, tmp_path / "a/back", ConvertOptions(include=["*.gguf"]))
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("glob", ["", "# x", "!x", "[", "a//b"])
def test_what_is_no_glob(tmp_path: Path, folder: Path, glob: str) -> None:
    with pytest.raises(UsageError, match="--include"):
        convert(folder, tmp_path / "x", ConvertOptions(include=[glob]))


def test_the_command_line(tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reference = f"oci:{tmp_path}/layout:v1"
    push(folder, reference)
    assert main(["pull", reference, f"{tmp_path}/back", "--include", "*.json", "--include", "*.md"]) == 0
    assert "(folder): 3 of 6 files, " in capsys.readouterr().err
    assert main(["pull", reference, f"{tmp_path}/other", "--include", "README.md", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["selectedFrom"] == 6
