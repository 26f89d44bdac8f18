# SPDX-License-Identifier: Apache-2.0
"""What the texts of options mean."""

from __future__ import annotations

import pytest

from ocibridge.errors import UsageError
from ocibridge.formats.folder.options import ROLES, role_rules
from ocibridge.model import Role
from ocibridge.operations.values import annotation, annotations_of, moment
from ocibridge.options import count


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("0", "1970-01-01T00:00:00+00:00"),
        ("1700000000", "2023-11-14T22:13:20+00:00"),
        ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00+00:00"),
        ("2026-01-31t12:00:00.5z", "2026-01-31T12:00:00.500000+00:00"),
        ("2026-01-31 12:00:00.123456789-05:30", "2026-01-31T12:00:00.123456-05:30"),
    ],
)
def test_times(text: str, iso: str) -> None:
    assert moment(text).isoformat() == iso


@pytest.mark.parametrize(
    "text", ["", "now", "2026-01-31", "2026-02-30T00:00:00Z", "2026-01-31T12:00:00", "9" * 12, "9" * 9999, "١٢"]
)
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="seconds since 1970"):
        moment(text)


def test_counts() -> None:
    assert count("12") == 12
    for text in ("0", "-1", "1.5", "", "١", "9" * 5000):
        with pytest.raises(ValueError):
            count(text)


def test_annotations() -> None:
    assert annotations_of(map(annotation, ["a=1", "b=", "c=x=y"])) == {"a": "1", "b": "", "c": "x=y"}
    for pairs in (["a"], ["=1"], ["a=1", "a=1"]):
        with pytest.raises(UsageError):
            annotations_of(map(annotation, pairs))


def test_roles_keep_their_order() -> None:
    assert tuple(each.value for each in Role) == ROLES
    assert role_rules(["*.x=doc", "a=b=weight"]) == (("*.x", "doc"), ("a=b", "weight"))
    for pairs in (["x"], ["=doc"], ["x=nothing"]):
        with pytest.raises(UsageError):
            role_rules(pairs)
