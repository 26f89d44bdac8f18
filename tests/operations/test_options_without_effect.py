# SPDX-License-Identifier: Apache-2.0
"""Options that have no effect are refused, and the sentence names the flag."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ocibridge import ConvertOptions, PullOptions, PushOptions, convert, pull, push
from ocibridge.cli.main import main
from ocibridge.errors import UsageError
from ocibridge.formats.registry import format_named, formats
from ocibridge.operations.options import SelectOptions, TargetOptions
from ocibridge.options import Option, fields_of

from ..formats.ollama.samples import GGUF

_VALUES: dict[str, Any] = {
    "links_hosts": ("example.org",),
    "runner_name": "torchscript",
    "framework_version": "=1.0",
    "runner_compat_version": 2,
    "hooks": "hooks",
    "roles": (("*.pt", "weight"),),
    "as_format": "folder",
    "include": ("*",),
    "exclude": ("*",),
}
"""Values of options that are not of a choice, or of yes and no."""
READING = [(each.name, option) for each in formats() for option in fields_of(each.read_options)]
WRITING = [(each.name, option) for each in formats() for option in fields_of(each.write_options)]
TARGET = [*fields_of(TargetOptions), *fields_of(SelectOptions)]


def value_of(option: Option) -> Any:
    if option.name in _VALUES:
        return _VALUES[option.name]
    if isinstance(option.default, bool):
        return not option.default
    return option.choices[0] if option.choices else pytest.fail(f"add a value for {option.name}")


def named(value: object) -> str | None:
    return value.name if isinstance(value, Option) else None


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(GGUF)
    return path


@pytest.fixture
def stored(tmp_path: Path, file: Path) -> str:
    reference = f"oci:{tmp_path}/layout:v1"
    push(file, reference)
    return reference


@pytest.mark.parametrize(("owner", "option"), WRITING, ids=named)
def test_options_of_another_format_are_refused_for_a_target(
    tmp_path: Path, store: Path, file: Path, stored: str, owner: str, option: Option
) -> None:
    writing = {option.name: value_of(option)}
    refused = f"{option.flags[0]} is for "
    for target in (str(tmp_path / "folder"), str(tmp_path / "x.gguf"), "ollama:x", "-"):
        with pytest.raises(UsageError, match=refused):
            pull(stored, target, PullOptions(writing=writing))
        with pytest.raises(UsageError, match=refused):
            convert(file, target, ConvertOptions(writing=writing))
    with pytest.raises(UsageError, match=refused):
        convert(file, f"oci:{tmp_path}/other:v1", ConvertOptions(writing=writing))
    with pytest.raises(UsageError, match=refused):
        convert(stored, f"oci:{tmp_path}/other:v1", ConvertOptions(writing=writing, dialect="modelpack"))
    for other in formats():
        if other.suffixes and option.name not in [each.name for each in fields_of(other.write_options)]:
            with pytest.raises(UsageError, match=refused):
                pull(stored, tmp_path / f"x{other.suffixes[0]}", PullOptions(writing=writing))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["layout", "models", "tiny.gguf"]


@pytest.mark.parametrize(("owner", "option"), READING, ids=named)
def test_options_of_another_format_are_refused_for_a_source(
    tmp_path: Path, carton: Callable[[str], Path], file: Path, stored: str, store: Path, owner: str, option: Option
) -> None:
    reading = {option.name: value_of(option)}
    refused = f"{option.flags[0]} is for "
    sources: dict[str, str | Path] = {
        "carton": carton("digits.carton"),
        "folder": file,
        "ollama": "ollama:tinyllama-test",
    }
    for name, source in sources.items():
        form = format_named(name)
        assert form
        if option.name in [each.name for each in fields_of(form.read_options)]:
            continue
        with pytest.raises(UsageError, match=refused):
            push(source, f"oci:{tmp_path}/other:v1", PushOptions(reading=reading))
        with pytest.raises(UsageError, match=refused):
            convert(source, tmp_path / "folder", ConvertOptions(reading=reading))
    with pytest.raises(UsageError, match=refused):
        convert(stored, tmp_path / "folder", ConvertOptions(reading=reading))
    with pytest.raises(UsageError, match=refused):
        convert(stored, f"oci:{tmp_path}/other:v1", ConvertOptions(reading=reading, dialect="modelpack"))


@pytest.mark.parametrize("option", TARGET, ids=named)
def test_options_for_targets_on_disk_are_refused_for_others(
    tmp_path: Path, file: Path, stored: str, option: Option
) -> None:
    options = ConvertOptions(dialect="modelpack", **{option.name: value_of(option)})
    with pytest.raises(
        UsageError,
        match=f"{option.flags[0]} is for a (source or )?target on disk, and oci:.* (is|are) in (a store|stores)",
    ):
        convert(stored, f"oci:{tmp_path}/other:v1", options)


@pytest.mark.parametrize("option", fields_of(TargetOptions), ids=named)
def test_options_for_files_are_refused_for_standard_output(stored: str, option: Option) -> None:
    with pytest.raises(UsageError, match=f"{option.flags[0]} is for files and folders, and - is standard output"):
        pull(stored, "-", PullOptions(**{option.name: value_of(option)}))


@pytest.mark.parametrize("name", ["carton", "mlarchive"])
def test_options_of_archives_are_refused_for_their_folders(
    tmp_path: Path, carton: Callable[[str], Path], name: str
) -> None:
    source = carton("digits.carton").with_name(f"digits.{name}")
    form = format_named(name)
    assert form
    for option in fields_of(form.write_options):
        if option.name in form.archive_options:
            writing = {option.name: value_of(option)}
            with pytest.raises(UsageError, match=f"{option.flags[0]} is for archives, and .*/x is a folder"):
                convert(source, tmp_path / "x", ConvertOptions(writing=writing))
    assert form.archive_options <= {each.name for each in fields_of(form.write_options)}


def test_a_runner_for_a_carton_that_has_one(tmp_path: Path, carton: Callable[[str], Path]) -> None:
    writing = {"runner_name": "torchscript", "framework_version": "=1.0"}
    with pytest.raises(UsageError, match="--runner-name is for a new carton, and the model is one"):
        convert(carton("digits.carton"), tmp_path / "x.carton", ConvertOptions(writing=writing))


def test_a_method_of_compression_for_an_archive_that_is_made_again(
    tmp_path: Path, carton: Callable[[str], Path]
) -> None:
    source = carton("digits.carton").with_name("digits.mlarchive")
    with pytest.raises(UsageError, match="--zip-method is for new MLSteam archives"):
        convert(source, tmp_path / "x.mlarchive", ConvertOptions(writing={"zip_method": "deflate"}))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("pull STORED DEST --zip-method stored", "--zip-method is for cartons and MLSteam archives"),
        ("pull STORED DEST --thin", "DEST is no archive, and only an archive can be thin"),
        ("pull STORED x.carton --runner-compat-version 2", "--runner-compat-version is for a new carton"),
        ("pull STORED ollama:x --as folder", "--as is for files and folders"),
        ("convert FILE DEST --dialect draft", "--dialect is for artifacts"),
        ("convert FILE oci:other:v1 --as folder", "--as is for a target on disk"),
        ("push FILE oci:other:v1 --strip-from", "--strip-from is for models of Ollama"),
        ("push FILE oci:other:v1 --fetch-links", "--fetch-links is for cartons"),
        ("push FILE oci:other:v1 --links-host h", "--links-host says where --fetch-links may fetch from"),
        ("push FILE oci:other:v1 --platform linux/amd64", "--platform is for the companion image"),
        ("push FILE oci:other:v1 --layers raw-files --compress gzip", "--compress is for tar layers"),
        ("push FILE oci:other:v1 --layers raw-files --max-layers 3", "--max-layers is for tar layers"),
        ("push FILE oci:other:v1 --mount-from a/b", "blobs are mounted inside a registry only"),
        ("push FILE oci:other:v1 --exact", "--exact is for archives"),
        ("push FILE oci:other:v1 --password-stdin", "--password-stdin needs --username"),
        ("push FILE oci:other:v1 --username me", "there is no terminal to ask for the password on"),
    ],
)
def test_the_command_line(
    tmp_path: Path, file: Path, stored: str, words: str, message: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    places = {"STORED": stored, "FILE": str(file), "DEST": "out"}
    before = sorted(tmp_path.iterdir())
    assert main([places.get(word, word) for word in words.split()]) == 2
    assert message.replace("DEST", "out") in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before
