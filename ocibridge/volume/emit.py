# SPDX-License-Identifier: Apache-2.0
"""A small part of YAML, which is all that a manifest for Kubernetes takes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

Comments = Mapping[tuple[str | int, ...], str]
"""A comment for the key or item at a path, which stands above it."""

_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./@+=-]*(?::[A-Za-z0-9_./@+=-]+)*")
_WORDS = frozenset(("true", "false", "yes", "no", "on", "off", "null", "y", "n"))
_WIDTH = 100


def to_yaml(document: Mapping[str, Any], comments: Comments) -> str:
    """A document of mappings, lists, texts, numbers and booleans, with comments, and a newline at its end."""
    return "".join(f"{line}\n" for line in _mapping(document, comments, ()))


def _mapping(value: Mapping[str, Any], comments: Comments, at: tuple[str | int, ...]) -> list[str]:
    lines: list[str] = []
    for key, each in value.items():
        place = (*at, key)
        lines += _comment(comments.get(place))
        nested = _nested(each, comments, place)
        if nested is None:
            lines.append(f"{_scalar(key)}: {_scalar(each)}")
        else:
            lines += [f"{_scalar(key)}:", *(f"  {line}" for line in nested)]
    return lines


def _sequence(value: list[Any], comments: Comments, at: tuple[str | int, ...]) -> list[str]:
    lines: list[str] = []
    for number, each in enumerate(value):
        place = (*at, number)
        lines += _comment(comments.get(place))
        first, *rest = _nested(each, comments, place) or [_scalar(each)]
        lines += [f"- {first}", *(f"  {line}" for line in rest)]
    return lines


def _nested(value: Any, comments: Comments, at: tuple[str | int, ...]) -> list[str] | None:
    if isinstance(value, Mapping) and value:
        return _mapping(value, comments, at)
    return _sequence(value, comments, at) if isinstance(value, list) and value else None


def _comment(text: str | None) -> list[str]:
    lines: list[str] = []
    for word in (text or "").split():
        if lines and len(lines[-1]) + len(word) < _WIDTH:
            lines[-1] += f" {word}"
        else:
            lines.append(f"# {word}")
    return lines


def _scalar(value: Any) -> str:
    """A value on one line; JSON is YAML, so that what is not plain is quoted as JSON quotes it."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return json.dumps(value)
