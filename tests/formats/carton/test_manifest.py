# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocibridge.errors import FormatError, LimitError, OcibridgeError
from ocibridge.formats.carton.manifest import CartonManifest, parse_manifest

A, B = "a" * 64, "b" * 64


def parse(text: str) -> CartonManifest:
    return parse_manifest(text.encode(), "it", 10_000)


def test_rows_and_hash() -> None:
    text = f"carton.toml={A}\nmodel/a=b\u2028\u0085 c={B}\n"
    manifest = parse(text)
    assert manifest.rows == {"carton.toml": A, "model/a=b\u2028\u0085 c": B}
    assert manifest.identity == "carton:" + hashlib.sha256(text.encode()).hexdigest()
    assert manifest.warnings == ()
    assert parse("").rows == {}


def test_order_is_that_of_bytes() -> None:
    assert parse(f"sub-x.txt={A}\nsub/a={A}\n\uffee={A}\n\U0001f600={A}\n").warnings == ()


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (f"a={A}", "no final newline"),
        (f"a={A}\r\nb={B}\r\n", "CRLF"),
        (f"a={A.upper()}\n", "upper case"),
        (f"b={A}\na={B}\n", "not sorted"),
        (f"\ufeffa={A}\n", "byte order mark"),
    ],
)
def test_oddities_are_warnings(text: str, warning: str) -> None:
    manifest = parse(text)
    assert manifest.rows["a"] in (A, B)
    (found,) = manifest.warnings
    assert warning in found
    assert "the carton client reads it" in found


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (f"a={A}\n\nb={A}\n", "line 2 is no row"),
        ("\n", "line 1 is no row"),
        (f"# comment\na={A}\n", "line 1 is no row"),
        ("a=123\n", "line 1 is no row"),
        (f"a={A} \n", "line 1 is no row"),
        (f"a={'g' * 64}\n", "line 1 is no row"),
        (f"a={A}\na={A}\n", "appears twice"),
        (f"a={A}\nA={A}\n", "collides"),
        (f"a={A}\na/b={A}\n", "both a file and a folder"),
        (f"MANIFEST={A}\n", "lists MANIFEST"),
        (f"LINKS={A}\n", "lists LINKS"),
        (f"model/={A}\n", "lists the folder"),
        (f"../a={A}\n", "leaves the folder"),
        (f"/a={A}\n", "is absolute"),
        (f"a\\b={A}\n", "backslash"),
        (f"a\0b={A}\n", "NUL"),
        (f"={A}\n", "is empty"),
    ],
)
def test_malformed(text: str, sentence: str) -> None:
    with pytest.raises(FormatError, match=sentence):
        parse(text)


def test_not_text_and_too_large() -> None:
    with pytest.raises(FormatError, match="not UTF-8"):
        parse_manifest(b"\xff", "it", 10)
    with pytest.raises(LimitError, match="has 11 bytes, more than the 10"):
        parse_manifest(b"x" * 11, "it", 10)


@given(
    st.one_of(
        st.binary(max_size=200),
        st.lists(st.sampled_from([A, "=", "\n", "\r", "a", "/", "."])).map(lambda parts: "".join(parts).encode()),
    )
)
def test_any_bytes(data: bytes) -> None:
    try:
        assert parse_manifest(data, "it", 10_000).sha256 == hashlib.sha256(data).hexdigest()
    except OcibridgeError as exc:
        assert exc.message
