# SPDX-License-Identifier: Apache-2.0
"""The path filter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocibridge import paths
from ocibridge.errors import FormatError
from ocibridge.paths import check_collisions, check_path

BAD = {
    "": "is empty",
    "/etc/passwd": "absolute",
    "../x": "leaves the folder",
    "a/../../x": "leaves the folder",
    "a\\b": "backslash",
    "a\0b": "control",
    "a\nb": "control",
    "C:/x": "drive",
    "c:x": "drive",
    "a//b": "empty",
    "./a": "'.' part",
    "a/": "empty",
    "x" * 4097: "4096",
    "\ud800": "Unicode",
}


@pytest.mark.parametrize("name", BAD)
def test_refused_with_its_reason(name: str) -> None:
    with pytest.raises(FormatError, match=BAD[name]) as caught:
        check_path(name, "x.carton")
    assert "\n" not in str(caught.value)
    assert "x.carton" in str(caught.value)


@pytest.mark.parametrize("name", ["a", "a/b.c", "ü/ñ", "a b", "a=b", "-x", "\u2028", "..a", ".hidden/x"])
def test_legal_names_pass_unchanged(name: str) -> None:
    assert check_path(name, "x") == name


@pytest.mark.parametrize(
    ("names", "word"),
    [
        (["a", "a"], "twice"),
        (["A.txt", "a.txt"], "collides"),
        (["\u00e9", "e\u0301"], "collides"),
        (["straße", "STRASSE"], "collides"),
        (["a", "a/b"], "both a file and a folder"),
        (["a/b", "A"], "both a file and a folder"),
        (["Dir/x", "dir/y"], "folders"),
    ],
)
def test_collisions(names: list[str], word: str) -> None:
    for order in (names, names[::-1]):
        with pytest.raises(FormatError, match=word):
            check_collisions(order, "x")


def test_neighbours_do_not_collide() -> None:
    check_collisions(["a/b", "a/c", "a-b", "a.b", "ab/c"], "x")


@given(st.text())
def test_any_text_ends_in_a_path_or_an_error(name: str) -> None:
    try:
        assert check_path(name, "x") == name
    except FormatError as exc:
        assert "\n" not in str(exc)


@given(st.from_regex(paths._ORDINARY, fullmatch=True))
def test_ordinary_names_have_no_defect(name: str) -> None:
    assert paths._defect(name) is None


@given(st.lists(st.text("aAbB/.\0ßé\u0301", max_size=3), max_size=4))
def test_folding_many_is_folding_each(names: list[str]) -> None:
    assert paths._folded(names) == [paths._fold(name) for name in names]
