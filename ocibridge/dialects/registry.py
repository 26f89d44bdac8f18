# SPDX-License-Identifier: Apache-2.0
"""The dialects there are: one table, and what other packages add (entry points of the group `ocibridge.dialects`)."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, cast

from ..errors import UsageError
from ..plugins import plugins

if TYPE_CHECKING:
    from .base import ManifestDialect

GROUP = "ocibridge.dialects"

_TABLE = {"cnai": "cnai:Cnai", "draft": "draft:Draft", "modelpack": "modelpack:Modelpack"}
"""Module and class of each dialect."""


@cache
def _built_in(name: str) -> ManifestDialect:
    module, _, kind = _TABLE[name].partition(":")
    return cast("ManifestDialect", getattr(import_module(f".{module}", __package__), kind)())


def _added() -> tuple[ManifestDialect, ...]:
    return plugins(GROUP, f"{__package__}.base:ManifestDialect", frozenset(_TABLE))


def dialect_names() -> tuple[str, ...]:
    """The name of every dialect."""
    return (*_TABLE, *(each.name for each in _added()))


def dialect_named(name: str) -> ManifestDialect:
    """The dialect of this name.

    Raises:
        UsageError: there is none.
    """
    if name in _TABLE:
        return _built_in(name)
    found = next((each for each in _added() if each.name == name), None)
    if found is None:
        raise UsageError(f"{name!r} is no dialect", hint=f"give one of: {', '.join(dialect_names())}")
    return found


def dialect_of(artifact_type: str | None, config_type: str | None) -> ManifestDialect | None:
    """The dialect of a manifest with these types (see `ManifestDialect.matches`); None for what is no model."""
    known = next((each for each in map(_built_in, _TABLE) if each.matches(artifact_type, config_type)), None)
    return known or next((each for each in _added() if each.matches(artifact_type, config_type)), None)
