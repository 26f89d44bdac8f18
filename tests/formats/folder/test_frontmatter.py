# SPDX-License-Identifier: Apache-2.0
"""The part of YAML that is read, and that the rest is let be."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocibridge.formats.folder.frontmatter import MAX_FRONT_MATTER, parse_front_matter


def parse(body: str) -> dict[str, tuple[str, ...]]:
    return parse_front_matter(f"---\n{body}\n---\n\n# Title\n".encode())


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("license: mit", {"license": ("mit",)}),
        ("license:   mit   # as always", {"license": ("mit",)}),
        ("license: 'mit'", {"license": ("mit",)}),
        ('license: "mit" # x', {"license": ("mit",)}),
        ("name: 'it''s'", {"name": ("it's",)}),
        ("name: a#b", {"name": ("a#b",)}),
        ("url: https://example.org/x", {"url": ("https://example.org/x",)}),
        ("n: 3.10", {"n": ("3.10",)}),
        ("tags: [a, 'b, c', \"d\",]", {"tags": ("a", "b, c", "d")}),
        ("tags: []", {}),
        ("tags:\n- a\n- 'b'\n# c\n- d", {"tags": ("a", "b", "d")}),
        ("tags:\n  - a\n\n  - b", {"tags": ("a", "b")}),
        ("tags: # these\n  - a", {"tags": ("a",)}),
        ("urls:\n- https://a\n- https://b", {"urls": ("https://a", "https://b")}),
        ("a: 1\r\nb: 2\r", {"a": ("1",), "b": ("2",)}),
        ("a: 1\na: 2", {"a": ("2",)}),
        ("model-index:\n- name: digits\n  results:\n  - task:\n      type: x", {"model-index.name": ("digits",)}),
        # what is not read
        ("a: ~", {}),
        ("a: null", {}),
        ("a:", {}),
        ("a: 1\na: |\n  x", {}),
        ("a: >-\n  folded\nb: 1", {"b": ("1",)}),
        ("a: one\n  two", {}),
        ("a: {x: 1}", {}),
        ("a: [x, [y]]", {}),
        ("a: [x,\n  y]", {}),
        ("a: &anchor x\nb: *anchor", {}),
        ("a: !!str x", {}),
        ('a: "\\x41"', {}),
        ('a: "open', {}),
        ("a:\n  b: 1", {}),
        ("a:\n- one\n  two", {}),
        ("a:\n- - b", {}),
        ("a:\n- - ", {}),
        ("- a\n- b", {}),
        ("a: b: c", {}),
    ],
)
def test_what_is_read(body: str, expected: dict[str, tuple[str, ...]]) -> None:
    assert parse(body) == expected


@pytest.mark.parametrize(
    "text", ["", "# Title\n", "---\nlicense: mit\n", " ---\nlicense: mit\n---\n", "--- \n", "----\na: b\n----\n"]
)
def test_no_front_matter(text: str) -> None:
    assert parse_front_matter(text.encode()) == {}


def test_a_byte_order_mark_and_broken_utf8() -> None:
    assert parse_front_matter(b"\xef\xbb\xbf---\na: b\nc: \xff\n---\n") == {"a": ("b",), "c": ("\ufffd",)}


def test_front_matter_without_end_in_sight() -> None:
    assert parse_front_matter(b"---\na: b\n" + b"#" * MAX_FRONT_MATTER + b"\n---\n") == {}


@given(st.binary(max_size=200))
def test_arbitrary_bytes(data: bytes) -> None:
    parse_front_matter(data)
    parse_front_matter(b"---\n" + data + b"\n---\n")


yaml_like = st.lists(st.sampled_from(["a", ":", " ", "-", "\n", "'", '"', "[", "]", ",", "#", "|", "{", "~", "\\"]))


@given(yaml_like.map("".join))
def test_what_looks_like_yaml(body: str) -> None:
    for values in parse(body).values():
        assert values
        assert all(values)


@pytest.mark.parametrize("piece", ["'", '"', " ", ",", "[", "' ", "'a',", "#", "\n- ", "\n- a: "])
def test_nothing_takes_long(piece: str) -> None:
    start = time.process_time()
    for body in ("a: ", "a: [", "a: '", "a:\n- "):
        parse_front_matter(f"---\n{body}{piece * (MAX_FRONT_MATTER // len(piece) - 20)}\n---\n".encode())
        parse_front_matter(f"---\n{body}{piece * 20_000}]x\n---\n".encode())
    assert time.process_time() - start < 5
