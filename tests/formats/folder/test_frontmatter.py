# SPDX-License-Identifier: Apache-2.0
"""What is read of the front matter of a README."""

import re
import time
from contextlib import suppress

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
        ("a: 1\na: |\n  x", {"a": ("x\n",)}),
        ("a: >-\n  folded\n  text\nb: 1", {"a": ("folded text",), "b": ("1",)}),
        ("a: one\n  two", {"a": ("one two",)}),
        ("a: [x,\n  y]", {"a": ("x", "y")}),
        ("a: &anchor x\nb: *anchor", {"a": ("x",), "b": ("x",)}),
        ("a: !!str x", {"a": ("x",)}),
        ("a: !!python/object/apply:os.system [x]", {"a": ("x",)}),
        ('a: "\\x41"', {"a": ("A",)}),
        ("a: 2024-05-01\nb: yes\nc: 0o17", {"a": ("2024-05-01",), "b": ("yes",), "c": ("0o17",)}),
        # what is not read
        ("a: ~", {}),
        ("a: null", {}),
        ("a:", {}),
        ("a: ''", {}),
        ("a: {x: 1}", {}),
        ("a: [x, [y]]", {"a": ("x",)}),
        ("a: &a [*a]", {}),
        ("a:\n  b: 1", {}),
        ("a:\n- - b", {}),
        ("? [a]\n: b", {}),
        ("- a\n- b", {}),
        ("", {}),
    ],
)
def test_what_is_read(body: str, expected: dict[str, tuple[str, ...]]) -> None:
    assert parse(body) == expected


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("license: mit\na: b: c", "line 3: mapping values are not allowed here"),
        ('a: "open', "line 3: found unexpected end of stream"),
        ("a: *b", "line 2: found undefined alias 'b'"),
        ("a: \0", "it has characters that YAML does not allow"),
        ('a: "\\UFFFFFFFF"', "it has characters that YAML does not allow"),
        ("a: " + "[" * 10_000, "it is nested too deeply"),
    ],
    ids=range(6),
)
def test_what_is_no_yaml(body: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}$"):
        parse(body)


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
    for text in (data, b"---\n" + data + b"\n---\n"):
        with suppress(ValueError):
            parse_front_matter(text)


yaml_like = st.lists(st.sampled_from(["a", ":", " ", "-", "\n", "'", '"', "[", "]", ",", "#", "|", "{", "~", "\\"]))


@given(yaml_like.map("".join))
def test_what_looks_like_yaml(body: str) -> None:
    with suppress(ValueError):
        for values in parse(body).values():
            assert values
            assert all(values)


@pytest.mark.parametrize("piece", ["'", '"', " ", ",", "[", "' ", "'a',", "#", "\n- ", "\n- a: "])
def test_nothing_takes_long(piece: str) -> None:
    start = time.process_time()
    for body in ("a: ", "a: [", "a: '", "a:\n- "):
        for rest in (piece * (MAX_FRONT_MATTER // len(piece) - 20), f"{piece * 20_000}]x"):
            with suppress(ValueError):
                parse_front_matter(f"---\n{body}{rest}\n---\n".encode())
    assert time.process_time() - start < 15
