# SPDX-License-Identifier: Apache-2.0
"""Versions and their ranges."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocibridge.mirror.jobs.semver import Range, Version

HINT = "write for example '>=1.2 <2', '^1.2', '~1.2.3', '1.x' or '1.2 - 1.4 || 2.x'"


def test_the_order_of_the_specification() -> None:
    # Semantic Versioning 2.0.0, section 11.
    texts = ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11"]
    texts += ["1.0.0-rc.1", "1.0.0", "2.0.0", "2.1.0", "2.1.1"]
    versions = [version for text in texts if (version := Version.parse(text))]
    assert len(versions) == len(texts)
    assert all(one < two and two > one for one, two in pairwise(versions))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", Version((1, 0, 0))),
        ("v1.2", Version((1, 2, 0))),
        ("1.2.3-rc.1", Version((1, 2, 3), ("rc", "1"))),
        ("1.2-0", Version((1, 2, 0), ("0",))),
        ("1.2.3+build.5", Version((1, 2, 3))),
        ("2024.01.15", Version((2024, 1, 15))),
        ("V1", None),
        ("1.2.3.4", None),
        ("1.2.3-01", None),
        ("1.2.3-", None),
        ("1.2.", None),
        ("1.2.3_4", None),
        ("latest", None),
        ("", None),
        ("١.٢", None),
    ],
)
def test_versions(text: str, expected: Version | None) -> None:
    assert Version.parse(text) == expected


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("1.2.3", "1.2.3 v1.2.3 1.2.3+b", "1.2.4 1.2.3-rc latest"),
        ("=1.2.3", "1.2.3", "1.2.4"),
        ("!=1.2.3", "1.2.4 0.1", "1.2.3 1.2.4-rc"),
        ("!=1.2", "1.3.0 0.2.0", "1.2.0 1.2.9"),
        (">1.2.3", "1.2.4 2", "1.2.3 1.2.4-rc"),
        (">1.2", "1.3.0", "1.2.0 1.2.9"),
        (">1", "2.0.0", "1.9.9"),
        ("<1.2", "1.1.9 0", "1.2.0"),
        (">=1.2", "1.2.0 3", "1.1.9 1.2.0-rc"),
        ("=>1.2", "1.2.0", "1.1.9"),
        ("<=1.2.3", "1.2.3 1.2", "1.2.4"),
        ("<=1.2", "1.2.9 0.9", "1.3.0"),
        ("=<1", "1.9.9", "2.0.0"),
        ("1", "1.0.0 1.9.9", "2.0.0 0.9.9"),
        ("1.x", "1.0.0 1.9.9", "2.0.0"),
        ("1.2.X", "1.2.0 1.2.9", "1.3.0"),
        ("1.2.*", "1.2.0", "1.3.0"),
        ("*", "0.0.0 99.0.0", "1.0.0-rc latest"),
        ("^1.2.3", "1.2.3 1.9.0", "1.2.2 2.0.0 2.0.0-rc"),
        ("^1.2", "1.2.0 1.9.0", "1.1.9 2.0.0"),
        ("^0.2.3", "0.2.3 0.2.9", "0.2.2 0.3.0"),
        ("^0.2", "0.2.0", "0.3.0"),
        ("^0.0.3", "0.0.3", "0.0.4 0.0.2"),
        ("^0.0", "0.0.0 0.0.9", "0.1.0"),
        ("^0", "0.0.0 0.9.9", "1.0.0"),
        ("~1.2.3", "1.2.3 1.2.9", "1.2.2 1.3.0"),
        ("~>1.2", "1.2.0 1.2.9", "1.3.0 1.1.9"),
        ("~1", "1.0.0 1.9.9", "2.0.0"),
        ("~0.0.0", "0.0.0 0.0.9", "0.1.0"),
        (">=1.2 <2", "1.2.0 1.9.9", "1.1.9 2.0.0"),
        (">= 1.2, < 2", "1.2.0 1.9.9", "1.1.9 2.0.0"),
        (">=1.2,<2", "1.2.0", "2.0.0"),
        ("1.2 - 1.4.5", "1.2.0 1.4.5", "1.1.9 1.4.6"),
        ("1.2 - 1.4", "1.4.9", "1.5.0"),
        ("1.x || >=3", "1.5.0 3.0.0", "2.0.0"),
        ("<1||2.0 - 2.1", "0.9 2.1.9", "1.0 2.2"),
        (">=v1.2", "v1.3", "v1.1"),
        # Prereleases.
        (">=1.2-0", "1.2.0-rc 1.3.0-alpha 1.2.0", "1.1.9"),
        (">=1.2.0-beta.2 <2", "1.2.0-beta.11 1.9.0-rc 1.5.0 2.0.0-rc", "1.2.0-beta.1"),
        ("^1.2.3-beta", "1.2.3-beta 1.2.3-rc 1.9.0-alpha", "1.2.3-alpha 2.0.0-alpha"),
        ("1.2.3-rc.1", "1.2.3-rc.1", "1.2.3 1.2.3-rc.2"),
        ("1.x || >=3-0", "3.0.0-rc 1.0.0", "1.5.0-rc"),
    ],
)
def test_ranges(text: str, inside: str, outside: str) -> None:
    found = Range.parse(text)
    assert [tag for tag in inside.split() if not found.matches(tag)] == []
    assert [tag for tag in outside.split() if found.matches(tag)] == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' in '' is no comparison of versions"),
        ("abc", "'abc' in 'abc' is no comparison of versions"),
        (">=1.2 || ", "'' in '>=1.2 || ' is no comparison of versions"),
        (">=1,,<2", "'' in '>=1,,<2' is no comparison of versions"),
        ("==1", "'==1' in '==1' is no comparison of versions"),
        ("> =1", "'>' in '> =1' is no comparison of versions"),
        ("1.2.3.4", "'1.2.3.4' in '1.2.3.4' is no comparison of versions"),
        ("1.2.3-01", "'1.2.3-01' in '1.2.3-01' has a prerelease number that begins with 0"),
        ("<*", "'<*' in '<*' compares with no version"),
        ("!=x", "'!=x' in '!=x' compares with no version"),
    ],
)
def test_what_is_no_range(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        Range.parse(text)
    assert str(caught.value) == f"{message}; {HINT}"


def test_a_range_that_is_too_long() -> None:
    with pytest.raises(ValueError, match="the range has 257 characters; give at most 256, and several ranges"):
        Range.parse("1" * 257)


NUMBERS = st.tuples(*[st.integers(0, 4)] * 3)
PRE = st.sampled_from(["", "-0", "-alpha", "-alpha.1", "-rc.2", "-rc.11"])
VERSIONS = st.builds(lambda numbers, pre: ".".join(map(str, numbers)) + pre, NUMBERS, PRE)
PARTIAL = st.builds(lambda numbers, given: ".".join(map(str, numbers[:given])), NUMBERS, st.integers(1, 3))
RELEASES = st.builds(lambda numbers: ".".join(map(str, numbers)), NUMBERS)


def holds(text: str, version: str) -> bool:
    return Range.parse(text).matches(version)


@given(VERSIONS, VERSIONS)
def test_exactly_one_of_three_holds(one: str, two: str) -> None:
    # A prerelease in each, so that prereleases are looked at.
    found = [holds(f"{operator}{two} || {operator}{two} >=0.0.0-0", one) for operator in ("<", "=", ">")]
    assert found.count(True) == 1


@given(PARTIAL, RELEASES)
def test_operators_and_their_opposites(partial: str, version: str) -> None:
    assert holds(f">={partial}", version) != holds(f"<{partial}", version)
    assert holds(f"<={partial}", version) != holds(f">{partial}", version)
    assert holds(f"={partial}", version) != holds(f"!={partial}", version)
    assert holds(f"={partial}", version) == (holds(f">={partial}", version) and holds(f"<={partial}", version))


@given(PARTIAL, RELEASES)
def test_tilde_is_within_caret_and_both_are_above(partial: str, version: str) -> None:
    if holds(f"~{partial}", version) and not partial.startswith("0"):
        assert holds(f"^{partial}", version)
    if holds(f"^{partial}", version) or holds(f"~{partial}", version):
        assert holds(f">={partial}", version)
        assert version.split(".")[0] == partial.split(".")[0]


@given(PARTIAL, PARTIAL, RELEASES)
def test_and_or_and_hyphens(one: str, two: str, version: str) -> None:
    assert holds(f">={one} <={two}", version) == (holds(f">={one}", version) and holds(f"<={two}", version))
    assert holds(f"{one} - {two}", version) == holds(f">={one}, <={two}", version)
    assert holds(f"{one} || {two}", version) == (holds(one, version) or holds(two, version))


@given(st.text(max_size=30), st.text(max_size=30))
def test_any_text_is_a_range_or_a_clear_refusal(text: str, tag: str) -> None:
    try:
        Range.parse(text).matches(tag)
    except ValueError as exc:
        assert HINT in str(exc)
