# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocibridge.errors import DestinationError, FormatError, IntegrityError, LimitError, UsageError
from ocibridge.formats.base import Sink
from ocibridge.formats.carton import CartonFormat
from ocibridge.formats.carton.create import NewCartonSink, Runner, carton_toml, toml_string
from ocibridge.formats.carton.options import CartonReadOptions, CartonWriteOptions
from ocibridge.formats.carton.reader import read_carton
from ocibridge.formats.carton.toml import parse_carton_toml, parse_toml
from ocibridge.formats.zip import read_directory
from ocibridge.io.content import BytesContent
from ocibridge.io.existing import Existing, TargetRules
from ocibridge.model import Model, ModelFile, ModelInfo, Role
from ocibridge.settings import Limits

from ..build import INDEX, contents, fill, manifest_of, stored_of

FORMAT = CartonFormat()
RUNNER = Runner("torchscript", "=1.12.1", 2)
OPTIONS = CartonWriteOptions(runner_name="torchscript", framework_version="=1.12.1", runner_compat_version=2)
GOLDEN_IDENTITY = "carton:50df4dbc9f5ccd26063b2784c4ba0565e5dfef70bcc2eb121f5136becb9bd2bc"
GOLDEN_ARCHIVE = "e010fb16bdf4ec68aae342b06f773c816f0e66b6f305fd5f3d8f64ff23e29ac1"
FILES = {
    "model.pt": b"weights",
    "sub/config.json": b"{}",
    "sub-x.txt": b"",
    "sub/é \U0001f600=.txt": b"odd",
    "carton.toml": b"x",
}
LINKS = {"latest.pt": "model.pt", "sub/up.pt": "../latest.pt"}
INFO = ModelInfo(
    name="digits",
    description='Says "7"\\n\nfor\ta 7\x7f',
    licenses=("MIT",),
    source_url="https://example.com/code",
    doc_url="https://example.com",
)
TOML = rb"""spec_version = 1
model_name = "digits"
model_description = "Says \"7\"\\n\nfor\ta 7\u007F"
license = "MIT"
repository = "https://example.com/code"
homepage = "https://example.com"

[runner]
runner_name = "torchscript"
required_framework_version = "=1.12.1"
runner_compat_version = 2
"""


@pytest.fixture
def plain() -> Model:
    """A model folder with two symbolic links, one through the other."""
    data = {**FILES, **dict.fromkeys(LINKS, FILES["model.pt"])}
    files = tuple(ModelFile(path, Role.WEIGHT, BytesContent(data[path]), None, LINKS.get(path)) for path in data)
    return Model("hf", files, info=INFO)


def sink_of(dest: Path, model: Model, **options: object) -> Sink:
    return FORMAT.sink(dest, stored_of(model), replace(OPTIONS, **options))  # type: ignore[arg-type]


def expected(model: Model) -> dict[str, bytes]:
    files = {f"model/{path}": data for path, data in contents(model).items()}
    files |= {"carton.toml": TOML, "tensor_data/index.toml": INDEX}
    return {**files, "MANIFEST": manifest_of(files)}


@pytest.mark.parametrize("name", ["out.carton", "out"])
@pytest.mark.parametrize("method", ["stored", "deflate", "zstd"])
def test_it_comes_back_as_a_carton(tmp_path: Path, plain: Model, name: str, method: str) -> None:
    dest = tmp_path / name
    sink = sink_of(dest, plain, zip_method=method)
    assert isinstance(sink, NewCartonSink)
    assert sink.parallel == (method == "stored" or name == "out")
    assert sink.losses == ()
    identity = fill(sink, plain)
    again = read_carton(dest, CartonReadOptions())
    assert contents(again) == expected(plain)
    assert {f.path: f.symlink for f in again.files if f.symlink} == {f"model/{path}": to for path, to in LINKS.items()}
    assert again.identity == identity == GOLDEN_IDENTITY
    assert again.warnings == ()
    assert again.info == replace(INFO, format="torchscript")
    assert again.origin["carton.runner_compat_version"] == "2"
    assert dest.is_dir() == (name == "out")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_one_model_one_archive(tmp_path: Path, plain: Model) -> None:
    """Golden bytes, in whatever order and by however many threads the files arrive."""
    for number, order in enumerate((plain.files, plain.files[::-1])):
        dest = tmp_path / f"{number}.carton"
        sink = sink_of(dest, plain)

        def write(file: ModelFile, sink: Sink = sink) -> None:
            with file.content.open() as reader:
                sink.write(file.path, file.size, reader)

        with sink, ThreadPoolExecutor(4) as pool:
            list(pool.map(write, order))
            sink.commit()
        assert hashlib.sha256(dest.read_bytes()).hexdigest() == GOLDEN_ARCHIVE
    names = [member.name for member in read_directory(tmp_path / "0.carton")]
    assert names == [*sorted({*names} - {"MANIFEST"}), "MANIFEST"]


def test_what_the_reader_vouches_for_is_not_hashed_again(tmp_path: Path, plain: Model) -> None:
    with sink_of(tmp_path / "out.carton", plain) as sink:
        for file in plain.files:
            with file.content.open() as reader:
                sink.write(file.path, file.size, reader, hashlib.sha256(contents(plain)[file.path]).hexdigest())
        assert sink.commit() == GOLDEN_IDENTITY


@pytest.mark.parametrize("name", ["out.carton", "out"])
@pytest.mark.parametrize("when", ["at once", "after a file", "incomplete", "surplus", "short"])
def test_nothing_stays_of_what_fails(tmp_path: Path, plain: Model, name: str, when: str) -> None:
    first = plain.files[0]
    with sink_of(tmp_path / name, plain) as sink:
        if when != "at once":
            with first.content.open() as reader:
                sink.write(first.path, first.size, reader)
        if when == "incomplete":
            with pytest.raises(IntegrityError, match=r"the file 'carton.toml' did not arrive"):
                sink.commit()
        if when == "surplus":
            with pytest.raises(IntegrityError, match="'other' is not what the artifact announced"):
                sink.write("other", 1, BytesContent(b"x").open())
        if when == "short":
            with pytest.raises(IntegrityError):
                sink.write("sub/config.json", 2, BytesContent(b"x").open())
    assert list(tmp_path.iterdir()) == []


def test_links_stay_below_the_model(tmp_path: Path, plain: Model) -> None:
    """Under `model/` the text would lead to a file of the carton; in the model it leads out."""
    bad = ModelFile("toml", Role.DOC, BytesContent(TOML), symlink="../carton.toml")
    with pytest.raises(FormatError, match="leads out of the model"):
        sink_of(tmp_path / "out", replace(plain, files=(*plain.files, bad)))
    other = ModelFile("latest.pt", Role.DOC, BytesContent(b"other"), symlink="model.pt")
    damaged = replace(plain, files=(plain.files[0], other))
    with pytest.raises(IntegrityError, match="have different bytes"):
        fill(sink_of(tmp_path / "out", damaged), damaged)
    assert list(tmp_path.iterdir()) == []


def test_without_a_runner_it_says_what_to_do(tmp_path: Path, plain: Model) -> None:
    with pytest.raises(FormatError) as caught:
        sink_of(tmp_path / "out.carton", plain, runner_name=None, framework_version=None, runner_compat_version=1)
    assert str(caught.value) == (
        f"cannot write {tmp_path}/out.carton: the model has no MANIFEST, so it is no carton; name a folder "
        "as the target, or have a carton made with --runner-name and --framework-version"
    )
    with pytest.raises(UsageError, match="needs a runner"):
        NewCartonSink(tmp_path / "out.carton", stored_of(plain), CartonWriteOptions())


def test_a_carton_stays_the_one_it_is(tmp_path: Path, plain: Model) -> None:
    fill(sink_of(tmp_path / "a.carton", plain), plain)
    model = read_carton(tmp_path / "a.carton", CartonReadOptions())
    assert fill(FORMAT.sink(tmp_path / "b.carton", stored_of(model), CartonWriteOptions()), model) == model.identity
    with pytest.raises(UsageError, match="--runner-name is for a new carton"):
        sink_of(tmp_path / "c.carton", model)
    with pytest.raises(FormatError, match="is one already"):
        NewCartonSink(tmp_path / "c", stored_of(model), OPTIONS)
    damaged = replace(model, files=model.files[:-1])
    with pytest.raises(FormatError, match="no MANIFEST, so it is no carton; the artifact is damaged"):
        FORMAT.sink(tmp_path / "d.carton", stored_of(damaged), CartonWriteOptions())


def test_an_unlisted_model_is_refused(tmp_path: Path, plain: Model) -> None:
    with pytest.raises(FormatError, match=r"does not list its files.*; name a folder"):
        FORMAT.sink(tmp_path / "x.carton", stored_of(plain, complete=False), OPTIONS)


def test_an_existing_target_stays(tmp_path: Path, plain: Model) -> None:
    dest = tmp_path / "out.carton"
    dest.write_bytes(b"mine")
    with pytest.raises(DestinationError):
        sink_of(dest, plain)
    assert dest.read_bytes() == b"mine"
    assert fill(sink_of(dest, plain, rules=TargetRules(Existing.OVERWRITE)), plain) == GOLDEN_IDENTITY


def test_what_no_reader_accepts_is_not_written(tmp_path: Path, plain: Model) -> None:
    with pytest.raises(LimitError, match="MANIFEST would have"):
        sink_of(tmp_path / "out", plain, limits=replace(Limits(), metadata=500))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "runner",
    [
        Runner("", "*"),
        Runner("noop", " "),
        Runner("noop", ""),
        Runner("noop", "1\n"),
        Runner("noop", "==1.2"),
        Runner("no\x1bop", "*"),
        Runner("noop", "*", -1),
        Runner("noop", "*", 2**63),
    ],
)
def test_runners_that_cannot_be_written(tmp_path: Path, plain: Model, runner: Runner) -> None:
    with pytest.raises(UsageError):
        named = {"runner_name": runner.name, "framework_version": runner.framework_version}
        sink_of(tmp_path / "out", plain, **named, runner_compat_version=runner.compat_version)


def test_losses(tmp_path: Path, plain: Model) -> None:
    info = ModelInfo(
        name="digits",
        title="Digits\n",
        licenses=("MIT", "Apache-2.0"),
        authors=("A", "B"),
        family="mlp",
        format="safetensors",
        param_size="7b",
        created_at=datetime(2024, 1, 2, tzinfo=timezone.utc),
    )
    with sink_of(tmp_path / "out", replace(plain, info=info, identity="ollama:sha256:1")) as sink:
        assert sink.losses == (
            r"the title 'Digits\n' is not stored: carton.toml has no word for it",
            "the licenses 'MIT', 'Apache-2.0' are not stored: carton.toml holds one only",
            "the family 'mlp' is not stored: carton.toml has no word for it",
            "the authors 'A, B' are not stored: carton.toml has no word for it",
            "the created at '2024-01-02 00:00:00+00:00' is not stored: carton.toml has no word for it",
            "the format 'safetensors' is not stored: carton.toml has no word for it",
            "the param size '7b' is not stored: carton.toml has no word for it",
            "the identity of the source (ollama:sha256:1) is not kept: the carton has its own",
        )
    with sink_of(tmp_path / "out", replace(plain, info=ModelInfo(title="Digits", format="torchscript"))) as sink:
        assert sink.losses == ()


def test_the_least_toml() -> None:
    data = carton_toml(ModelInfo(title="T", description=""), Runner("noop", "*"))
    assert data.startswith(b'spec_version = 1\nmodel_name = "T"\n\n[runner]\n')
    parsed, problems = parse_carton_toml(data, "x", 1000)
    assert problems == ()
    assert parsed.info() == ModelInfo(name="T", format="noop")


@given(st.text())
def test_strings_survive_toml(text: str) -> None:
    line = toml_string(text)
    assert "\n" not in line
    assert parse_toml(f"x = {line}\n".encode(), "x", 10_000) == {"x": text}


@pytest.mark.parametrize(("text", "line"), [("\ud800", '"?"'), ("\x00\x1f", r'"\u0000\u001F"'), ("é", '"é"')])
def test_odd_strings(text: str, line: str) -> None:
    assert toml_string(text) == line
