# SPDX-License-Identifier: Apache-2.0
"""Options that are said once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import pytest

from ocibridge.errors import UsageError
from ocibridge.options import Options, fields_of, from_mapping, option


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, kw_only=True)
class Common(Options):
    cache: bool = option(True, help="keep no digests")
    limit: int = 3


@dataclass(frozen=True, kw_only=True)
class Paint(Common):
    colour: Colour | str | None = option(None, help="of the wall", choices=Colour)
    method: str = option("brush", help="how (default: %(default)s)", choices=("brush", "spray"))
    rooms: Sequence[str] = option((), help="which", metavar="ROOM", repeat=True, flag=("--room", "--chamber"))


def test_own_fields_come_first_each_with_its_flags() -> None:
    assert [(each.name, each.flags) for each in fields_of(Paint)] == [
        ("colour", ("--colour",)),
        ("method", ("--method",)),
        ("rooms", ("--room", "--chamber")),
        ("cache", ("--no-cache",)),
    ]
    assert [each.choices for each in fields_of(Paint)] == [("red", "blue"), ("brush", "spray"), None, None]


def test_values_of_an_enum_become_its_members() -> None:
    assert Paint(colour="red").colour is Colour.RED
    assert Paint(colour=Colour.BLUE).colour is Colour.BLUE
    assert Paint().colour is None


def test_a_list_becomes_a_tuple() -> None:
    assert Paint(rooms=["kitchen"]).rooms == ("kitchen",)
    assert hash(Paint(rooms=["kitchen"])) == hash(Paint(rooms=("kitchen",)))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"colour": "green"}, "--colour cannot be 'green'; give one of: red, blue"),
        ({"method": "roll"}, "--method cannot be 'roll'; give one of: brush, spray"),
        ({"rooms": "kitchen"}, "rooms is a list, and 'kitchen' is none; give a list of texts"),
        ({"size": 1}, "a wall has no option size; it has: cache, limit, colour, method, rooms"),
    ],
)
def test_wrong_values_are_usage_errors(values: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        from_mapping(Paint, values, "a wall")
    assert str(caught.value) == message


def test_names_and_values_make_options() -> None:
    assert from_mapping(Paint, {"colour": "red", "limit": 5}, "a wall") == Paint(colour=Colour.RED, limit=5)
