# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocibridge.errors import FormatError, LimitError, OcibridgeError
from ocibridge.formats.carton.links import parse_links
from ocibridge.formats.carton.toml import CartonToml, index_warnings, parse_carton_toml

from ..build import TOML


def parse(text: str | bytes) -> tuple[CartonToml, tuple[str, ...]]:
    return parse_carton_toml(text.encode() if isinstance(text, str) else text, "it", 100_000)


def test_the_example_of_the_specification() -> None:
    toml, warnings = parse(
        """
        spec_version = 1
        model_name = "super_awesome_test_model"
        required_platforms = ["x86_64-unknown-linux-gnu", "aarch64-apple-darwin"]
        unknown = 1
        [[input]]
        name = "x"
        dtype = "float32"
        shape = ["batch_size", 3, 512, 512]
        internal_name = "some_namespace/in_x:0"
        [[input]]
        name = "y"
        dtype = "string"
        shape = "*"
        [[output]]
        name = "out"
        shape = []
        dtype = "uint8"
        [[self_test]]
        inputs = { x = "@tensor_data/self_test_tensor_0" }
        expected_out = { out = "@tensor_data/another_tensor"}
        [[example]]
        inputs = { x = "@misc/input.png" }
        sample_out = { out = "@misc/..." }
        [runner]
        runner_name = "torchscript"
        required_framework_version = "=1.12.1"
        runner_compat_version = 2
        more = { a = 1 }
        [runner.opts]
        num_threads = 1
        [future]
        x = 1
        """
    )
    assert warnings == ()
    assert toml.input[0].shape == ["batch_size", 3, 512, 512]
    assert toml.info().name == "super_awesome_test_model"
    assert toml.info().format == "torchscript"
    assert toml.origin() == {
        "carton.spec_version": "1",
        "carton.runner_name": "torchscript",
        "carton.required_framework_version": "=1.12.1",
        "carton.runner_compat_version": "2",
        "carton.required_platforms": "x86_64-unknown-linux-gnu,aarch64-apple-darwin",
    }


def test_byte_order_mark() -> None:
    assert parse(b"\xef\xbb\xbf" + TOML)[1] == ()


@pytest.mark.parametrize(
    ("old", "new", "warning"),
    [
        ("spec_version = 1", "", "spec_version is missing; the carton client does not load it"),
        ("spec_version = 1", "spec_version = 2", "loads it as if it were 1"),
        ("spec_version = 1", "spec_version = '1'", "spec_version: input should be a valid integer"),
        ("spec_version = 1", "spec_version = 0x" + "f" * 9000, "spec_version: "),
        ("[runner]", "[other]", "runner.runner_name is missing"),
        ('runner_name = "noop"', "", "runner.runner_name is missing"),
        ('runner_name = "noop"', "runner_name = 3", "runner.runner_name: input should be a valid string"),
        ("runner_compat_version = 1", "", "runner.runner_compat_version is missing"),
        ('"*"', '"==0.0.1"', "no semver requirement"),
        ("[runner]", "required_platforms = ['my computer']\n[runner]", "no target triple"),
        ("[runner]", "model_name = 3\n[runner]", "model_name: input should be a valid string"),
        ("[runner]", "[[input]]\nname='x'\ndtype='f32'\nshape=[]\n[runner]", "input.0.dtype: "),
        ("[runner]", "[[input]]\nname='x'\n[runner]", "input.0.dtype: field required"),
        ("[runner]", "[[example]]\ninputs={}\n[runner]", "no sample_out"),
        ("[runner]", "[[self_test]]\ninputs={x='@misc/x'}\n[runner]", "outside of tensor_data"),
        ("[runner]", "[runner.opts]\na = [1]\n[runner]", "no number, string or boolean"),
    ],
)
def test_what_the_client_refuses_is_a_warning(old: str, new: str, warning: str) -> None:
    toml, warnings = parse(TOML.decode().replace(old, new))
    assert warning in " | ".join(warnings)
    assert toml.info()
    assert toml.origin() is not None


@pytest.mark.parametrize(
    "version", ["*", "1", "=1.12.1", ">=0.0.1, <1", "^1.2", "~1.2.3", "1.*", "=1.0.0-rc.1", " 2.0 "]
)
def test_semver_requirements(version: str) -> None:
    assert parse(TOML.decode().replace('"*"', f'"{version}"'))[1] == ()


@pytest.mark.parametrize("text", [b"a", b"\xff", b"a = 1\na = 2", b"a = " + b"[" * 5000])
def test_no_toml(text: bytes) -> None:
    with pytest.raises(FormatError, match=r"it is not valid TOML|nested too deeply"):
        parse(text)
    with pytest.raises(LimitError, match="more than the 0"):
        parse_carton_toml(text, "it", 0)


def test_tensor_index() -> None:
    row = "[[tensor]]\nname='a'\ndtype='int8'\nshape=[1]\nfile='a.bin'\n"
    files = {"tensor_data/a.bin"}
    assert index_warnings(b"tensor = []", files, 1000) == ()
    assert index_warnings((row + "inner=[]").encode(), files, 1000) == ()
    assert "no `inner` list; the carton client panics" in index_warnings(row.encode(), files, 1000)[0]
    assert "is not in the carton" in index_warnings((row + "inner=[]").encode(), set(), 1000)[0]
    for wrong in (b"", b"tensor = 1", b"=", b"[[tensor]]"):
        assert "the carton client panics" in index_warnings(wrong, files, 1000)[0]


def test_links() -> None:
    links = parse_links(b'version = 1\n[urls]\nAA = ["x", "y"]\naa = ["z"]\n', "it", 1000)
    assert links.of("aa") == ["x", "y", "z"]
    assert links.of("bb") == []
    for wrong in (b"", b"version = 2", b"version = 1\nurls = 3", b"version = 1\n[urls]\na = 'x'", b"\xff"):
        with pytest.raises(FormatError, match="it: LINKS"):
            parse_links(wrong, "it", 1000)


WORDS = (
    *("[runner]\n", "[[input]]\n", "[runner.opts]\n", "name", "shape", "=", "spec_version", "runner", " = 1\n"),
    *(" = 'x'\n", " = [1]\n", " = {}\n", "a=1979-05-27\n", "urls", "version", "[[tensor]]\n", "\n", "dtype", "."),
)
pieces = st.lists(st.sampled_from(WORDS))


@given(st.one_of(st.binary(max_size=100), pieces.map(lambda parts: "".join(parts).encode())))
def test_any_bytes(data: bytes) -> None:
    for parse_it in (parse_carton_toml, parse_links):
        try:
            parse_it(data, "it", 1000)
        except OcibridgeError as exc:
            assert exc.message
    index_warnings(data, set(), 1000)
