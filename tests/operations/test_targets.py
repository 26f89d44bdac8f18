# SPDX-License-Identifier: Apache-2.0
"""Targets mean what they look like: single files, misspelt names, standard output, names that are not given."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ocibridge import ConvertOptions, PullOptions, PushOptions, convert, pull, push
from ocibridge.errors import DestinationError, FormatError, OcibridgeError, UsageError
from ocibridge.oci import parse_reference

from ..formats.ollama.samples import gguf
from ..registry import RegistryServer
from ..trees import paths_in

Carton = Callable[[str], Path]


@pytest.fixture
def weights(tmp_path: Path) -> bytes:
    data = gguf()
    (tmp_path / "tiny.gguf").write_bytes(data)
    return data


@pytest.fixture
def one(tmp_path: Path, weights: bytes) -> str:
    """A layout with a model of one file."""
    reference = f"oci:{tmp_path}/layout:one"
    push(tmp_path / "tiny.gguf", reference)
    return reference


@pytest.fixture
def several(tmp_path: Path, weights: bytes) -> str:
    """A layout with a folder of four files."""
    folder = tmp_path / "several"
    (folder / "sub").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.gguf").write_bytes(weights)
    (folder / "README.md").write_text("# mine")
    (folder / "sub" / "notes.txt").write_text("x")
    reference = f"oci:{tmp_path}/layout:several"
    push(folder, reference)
    return reference


def files_below(folder: Path) -> list[str]:
    return sorted(each.relative_to(folder).as_posix() for each in paths_in(folder) if each.is_file())


@pytest.mark.parametrize("layers", ["tar", "raw", "raw-files"])
def test_a_model_of_one_file_comes_back_as_that_file(tmp_path: Path, weights: bytes, layers: str) -> None:
    reference = f"oci:{tmp_path}/other:v1"
    push(tmp_path / "tiny.gguf", reference, PushOptions(layers=layers))
    report = pull(reference, tmp_path / "back.gguf")
    assert (tmp_path / "back.gguf").read_bytes() == weights
    assert (report.format, report.file_count, report.target) == ("file", 1, str(tmp_path / "back.gguf"))


def test_conversion_of_one_file(tmp_path: Path, weights: bytes, one: str) -> None:
    convert(one, tmp_path / "a.gguf")
    convert(tmp_path / "a.gguf", tmp_path / "b.GGUF")
    assert (tmp_path / "b.GGUF").read_bytes() == weights


@pytest.mark.parametrize("name", ["x.pt", "x.onnx", "x.zip"])
def test_any_file_comes_back_under_its_own_suffix(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / name).write_bytes(b"weights")
    push(folder, f"oci:{tmp_path}/layout:v1")
    pull(f"oci:{tmp_path}/layout:v1", tmp_path / name)
    assert (tmp_path / name).read_bytes() == b"weights"


def test_a_folder_of_any_name(tmp_path: Path, one: str) -> None:
    pull(one, tmp_path / "a.gguf", PullOptions(as_format="folder"))
    pull(one, f"{tmp_path}/b.gguf/")
    assert files_below(tmp_path / "a.gguf") == files_below(tmp_path / "b.gguf") == ["tiny.gguf"]


@pytest.mark.parametrize("name", ["v1.2", "llama-3.1", "Qwen2.5-0.5B", "phi.v2", "my.model", "plain"])
def test_dots_in_names_of_folders(tmp_path: Path, one: str, name: str) -> None:
    assert pull(one, tmp_path / name).format == "folder"
    assert files_below(tmp_path / name) == ["tiny.gguf"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x.crton", "did you mean {}/x.carton?"),
        ("x.cartoon", "did you mean {}/x.carton?"),
        ("x.mlarchve", "did you mean {}/x.mlarchive?"),
        ("x.gguff", "did you mean {}/x.gguf?"),
        ("x.safetensor", "did you mean {}/x.safetensors?"),
        ("x.gguf", "takes a model of one file, and this one has 4: 'README.md', 'config.json', 'model.gguf', 'sub/"),
        ("x.zip", "name a folder: x; or take one of them with --include"),
        ("-", "standard output takes a model of one file, and this one has 4"),
    ],
)
@pytest.mark.parametrize("operation", ["pull", "convert", "convert a path"])
def test_names_of_files_that_the_model_is_not(
    tmp_path: Path, several: str, name: str, message: str, operation: str
) -> None:
    target = name if name == "-" else str(tmp_path / name)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(OcibridgeError) as caught:
        if operation == "pull":
            pull(several, target)
        else:
            convert(several if operation == "convert" else tmp_path / "several", target)
    assert message.format(tmp_path) in str(caught.value)
    assert sorted(tmp_path.iterdir()) == before
    assert not Path("-").exists()


def test_another_suffix_than_that_of_the_file(tmp_path: Path, one: str) -> None:
    with pytest.raises(UsageError, match=r"the only file is 'tiny\.gguf'; name it .*x\.gguf"):
        pull(one, tmp_path / "x.safetensors")


def test_an_archive_has_its_own_suffix(tmp_path: Path, carton: Carton) -> None:
    push(carton("digits.carton"), f"oci:{tmp_path}/layout:v1")
    with pytest.raises(FormatError, match=r"15: .* and 10 more; name the target x\.carton for the archive, or x for"):
        pull(f"oci:{tmp_path}/layout:v1", tmp_path / "x.gguf")


def test_one_of_several_files(tmp_path: Path, several: str, weights: bytes) -> None:
    pull(several, tmp_path / "x.gguf", PullOptions(include=["*.gguf"]))
    convert(tmp_path / "several", tmp_path / "y.gguf", ConvertOptions(include=["model.gguf"]))
    assert (tmp_path / "x.gguf").read_bytes() == (tmp_path / "y.gguf").read_bytes() == weights


def test_the_weight_of_an_ollama_model(tmp_path: Path, store: Path) -> None:
    with pytest.raises(FormatError, match=r"model of one file, and this one has .*'model\.gguf'"):
        convert("ollama:tinyllama-test", tmp_path / "x.gguf")
    convert("ollama:tinyllama-test", tmp_path / "x.gguf", ConvertOptions(include=["model.gguf"]))
    assert (tmp_path / "x.gguf").read_bytes()[:4] == b"GGUF"


def _piped(*words: object) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "ocibridge", *map(str, words)]
    return subprocess.run(command, capture_output=True, check=False, timeout=60)


@pytest.mark.parametrize("command", ["pull", "convert"])
def test_standard_output(tmp_path: Path, weights: bytes, one: str, command: str) -> None:
    done = _piped(command, one, "-")
    assert (done.returncode, done.stdout) == (0, weights)
    assert b"to standard output (file): 1 file, " in done.stderr
    source = tmp_path / "tiny.gguf"
    assert _piped("convert", source, "-", "-q").stdout == weights


def test_standard_output_and_json(one: str) -> None:
    done = _piped("pull", one, "-", "--json")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"would both go to standard output" in done.stderr


def test_a_reader_that_goes_away(tmp_path: Path) -> None:
    (tmp_path / "large.gguf").write_bytes(gguf() + bytes(1 << 20))
    push(tmp_path / "large.gguf", f"oci:{tmp_path}/layout:v1")
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "ocibridge", "pull", f"oci:{tmp_path}/layout:v1", "-"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False, timeout=60)
    os.close(write)
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    assert b"standard output: broken pipe" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("push", "-", "oci:layout:v1"),
        ("inspect", "-"),
        ("verify", "-"),
        ("convert", "-", "x"),
        ("push", "x.carton", "oci-archive:-"),
        ("pull", "oci:-:v1", "x"),
        ("copy", "oci:a:v1", "oci-archive:-:v1"),
    ],
    ids=" ".join,
)
def test_where_no_single_file_goes_through(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = _piped(*words)
    assert done.returncode == 2, done.stderr
    assert b"standard input" in done.stderr
    assert not Path("-").exists()


@pytest.mark.parametrize(
    ("word", "command"),
    [
        ("hf://Qwen/Qwen3-0.6B", "hf download Qwen/Qwen3-0.6B --local-dir Qwen3-0.6B"),
        ("https://huggingface.co/Qwen/Qwen3-0.6B/tree/main", "hf download Qwen/Qwen3-0.6B --local-dir Qwen3-0.6B"),
        ("huggingface.co/foo/bar", "hf download foo/bar --local-dir bar"),
    ],
)
@pytest.mark.parametrize("before", [["push"], ["inspect"], ["pull"], ["copy"], ["convert"]], ids=str)
def test_the_hub(word: str, command: str, before: list[str]) -> None:
    done = _piped(*before, word, *([] if before == ["inspect"] else ["oci:layout:v1"]))
    assert done.returncode == 2, done.stderr
    assert f"fetch it with '{command}', and give the folder".encode() in done.stderr


@pytest.mark.parametrize("words", [("push", "oci:layout:v1"), ("inspect",), ("verify",), ("convert", "x")], ids=str)
def test_a_name_that_is_too_long(words: tuple[str, ...]) -> None:
    command, *rest = words
    done = _piped(command, "a" * 300, *rest)
    assert done.returncode in (1, 2)
    assert b"should not happen" not in done.stderr


def test_a_target_name_that_is_too_long(tmp_path: Path, one: str) -> None:
    with pytest.raises(DestinationError, match="file name too long; give it a shorter name"):
        pull(one, tmp_path / ("a" * 300))
    with pytest.raises(DestinationError, match="file name too long; give it a shorter name"):
        pull(one, tmp_path / ("a" * 300) / "b")


def test_what_can_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"x")
    with pytest.raises(OcibridgeError, match=r"x\.carton, x\.mlarchive, x\.gguf or x\.safetensors, a folder, ollama:"):
        push(tmp_path / "x", "oci:layout:v1")


@pytest.mark.parametrize("target", ["localhost:5000/models/x:v1", "oci:out:v1", "docker://localhost:5000/x"])
def test_a_reference_is_no_target_of_a_pull(one: str, target: str) -> None:
    with pytest.raises(UsageError, match="is a reference, and the target of a pull is a path; copy between stores"):
        pull(one, target)
    assert not Path("localhost:5000").exists()


def test_a_broken_reference_is_no_folder(tmp_path: Path, weights: bytes) -> None:
    with pytest.raises(UsageError, match="Models"):
        convert(tmp_path / "tiny.gguf", "localhost:5000/Models/x:v1")
    assert not Path("localhost:5000").exists()


def test_default_names(
    tmp_path: Path,
    weights: bytes,
    carton: Carton,
    registry: RegistryServer,
    repository: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.txt").write_text("a")
    (tmp_path / "folder" / "b.txt").write_text("b")
    for source, name, expected in [
        (carton("digits.carton"), "digits", "digits.carton"),
        (tmp_path / "tiny.gguf", "llama", "llama.gguf"),
        (tmp_path / "tiny.gguf", "other.gguf", "other.gguf"),
        (tmp_path / "folder", "llama-3.1", "llama-3.1/"),
        (tmp_path / "folder", "model.bin", "model.bin/"),
    ]:
        reference = f"{registry.host}/{repository}/{name}:v1"
        push(source, reference)
        assert pull(reference).target == expected
        assert Path(expected).is_dir() == expected.endswith("/")


def test_default_names_of_layouts(
    tmp_path: Path, several: str, carton: Carton, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="layout/ is what the model is read from; give another name as DEST"):
        pull(several)
    push(carton("digits.carton"), "oci-archive:packed.tar:v1")
    assert pull("oci-archive:packed.tar:v1").target == "packed.carton"


def test_folders_above_the_target(tmp_path: Path, one: str, several: str) -> None:
    pull(one, tmp_path / "a" / "b" / "c.gguf")
    assert files_below(tmp_path / "a") == ["b/c.gguf"]
    (tmp_path / "mine").mkdir()
    with pytest.raises(FormatError):
        pull(several, tmp_path / "mine" / "b" / "c.gguf")
    assert list((tmp_path / "mine").iterdir()) == []
    assert parse_reference(one).tag == "one"
