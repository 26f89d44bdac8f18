# SPDX-License-Identifier: Apache-2.0
"""Translate the errors of pydantic into sentences for the author of a file."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError, PydanticKnownError, core_schema

from ...paths import show
from .yamlfile import Key, YamlFile, dotted

_WRONG_KIND = {
    "bool_type": ("truth value", "write true or false"),
    "int_type": ("whole number", "write one"),
    "int_from_float": ("whole number", "write one"),
    "float_type": ("number", "write one"),
    "tuple_type": ("list", "write [a, b], or one item a line with '- ' before it"),
    "model_type": ("mapping", "write its keys below it, one a line"),
}
_WRONG_AMOUNT = {
    "greater_than": ("small; give more than", "gt"),
    "greater_than_equal": ("small; give at least", "ge"),
    "less_than_equal": ("large; give at most", "le"),
}


class JobSection(BaseModel):
    """A mapping of a settings file: camelCase keys, nothing unknown, nothing converted.

    Attributes:
        refused: Keys that other tools have in this place and we do not, with the reason and what to write instead.
        secret: Whether a value of it may be a password, so that no complaint may show one.
    """

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        alias_generator=to_camel,
        hide_input_in_errors=True,
        arbitrary_types_allowed=True,
    )
    refused: ClassVar[dict[str, str]] = {}
    secret: ClassVar[bool] = False


@dataclass(frozen=True)
class OneOf:
    """Annotates a text that is one of some names, which plugins may add to: a `Literal` that is not known in advance.

    Attributes:
        names: Gives the names when they are asked for.
    """

    names: Callable[[], Iterable[str]]

    def _check(self, value: Any) -> str:
        if not isinstance(value, str) or value not in self.names():
            raise PydanticKnownError("literal_error", {"expected": ", ".join(self.names())})
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._check)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: Any) -> dict[str, Any]:
        return {"type": "string", "enum": [*self.names()]}


def complaint(text: str) -> PydanticCustomError:
    """Return the error for a validator to raise; its sentence is shown unchanged."""
    return PydanticCustomError("complaint", "{text}", {"text": text})


def complaints(exc: ValidationError, file: YamlFile, root: type[JobSection]) -> list[str]:
    """All that is wrong, `FILE:LINE:COLUMN: sync[0].tags.allow: what; what to do`, in the order of the file."""
    found: list[tuple[str, str]] = []
    for error in exc.errors(include_url=False, include_input=False):
        key = error["loc"]
        owner, secret = _resolve(key, root)
        by_name = error["type"] in ("extra_forbidden", "missing")
        found.append((file.at(key, name=by_name), _sentence(error, key, owner, secret, file)))
    return [where + what for where, what in sorted(dict.fromkeys(found), key=lambda each: _order(each[0], file))]


def _order(where: str, file: YamlFile) -> tuple[int, int]:
    line, column = where.removeprefix(f"{file.path}:").split(":", 2)[:2]
    return int(line), int(column)


def _resolve(key: Key, root: type[JobSection]) -> tuple[type[JobSection], bool]:
    """The type of the mapping that a key belongs to, and whether a password may be there or below."""
    owner: type[JobSection] = root
    inside: type[JobSection] | None = root
    for name in key:
        if isinstance(name, str) and inside is not None:
            owner = inside
            field = {each.alias or own: each for own, each in owner.model_fields.items()}.get(name)
            inside = _part_of(field.annotation) if field else None
    return owner, owner.secret or (inside is not None and inside.secret)


def _part_of(annotation: Any) -> type[JobSection] | None:
    if isinstance(annotation, type) and issubclass(annotation, JobSection):
        return annotation
    return next((part for each in get_args(annotation) if (part := _part_of(each))), None)


def _sentence(error: ErrorDetails, key: Key, owner: type[JobSection], secret: bool, file: YamlFile) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind == "complaint":
        return str(context["text"])
    if kind == "extra_forbidden":
        return _unknown(key, owner)
    if kind == "missing":
        about = _about(key, owner)
        return "it is missing; add it" + (f" ({about})" if about else "")
    text = None if secret else _written(key, file)
    if kind == "string_type":
        return _no_text(text, _value(key, file))
    if kind == "literal_error":
        return _none_of(text, owner, key)
    given = "this" if text is None else show(text)
    if kind in _WRONG_KIND:
        what, hint = _WRONG_KIND[kind]
        if "number" in what and isinstance(_value(key, file), str):
            hint += ", without quotes"
        return f"{given} is no {what}; {hint}"
    if kind in _WRONG_AMOUNT:
        what, limit = _WRONG_AMOUNT[kind]
        return f"{given} is too {what} {context[limit]}"
    if kind == "too_long":
        return f"this list has {context['actual_length']} items; give at most {context['max_length']}"
    return f"{error['msg'][0].lower()}{error['msg'][1:]}; correct it"


def _unknown(key: Key, owner: type[JobSection]) -> str:
    name = str(key[-1])
    if name in owner.refused:
        return owner.refused[name]
    known = [each.alias or own for own, each in owner.model_fields.items()]
    folded = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), folded, 1)
    where = dotted(key[:-1]) or "the file"
    hint = f"did you mean {folded[close[0]]!r}?" if close else f"the keys here are {', '.join(known)}"
    return f"this is no key of {where}; {hint}"


def _no_text(text: str | None, value: object) -> str:
    if isinstance(value, (dict, tuple)):
        return f"a text is wanted, not a {'mapping' if isinstance(value, dict) else 'list'}; write one value"
    kind = "truth value" if isinstance(value, bool) else "number"
    if text is None:
        return f"this is a {kind} in YAML; quote it"
    return f"{text} is a {kind} in YAML; quote it: {_quoted(text)}"


def _none_of(text: str | None, owner: type[JobSection], key: Key) -> str:
    choices = _choices(key, owner)
    close = difflib.get_close_matches(text or "", choices, 1)
    hint = f"did you mean {close[0]!r}?" if close else f"write one of {', '.join(choices)}"
    return f"{'this' if text is None else show(text)} is not possible here; {hint}"


def _choices(key: Key, owner: type[JobSection]) -> list[str]:
    name = next(part for part in reversed(key) if isinstance(part, str))
    field = next(each for own, each in owner.model_fields.items() if (each.alias or own) == name)
    return _literals(field.annotation)


def _literals(annotation: Any) -> list[str]:
    found: list[str] = []
    for each in get_args(annotation):
        found += [each] if isinstance(each, str) else each.names() if isinstance(each, OneOf) else _literals(each)
    return found


def _about(key: Key, owner: type[JobSection]) -> str | None:
    name = next((part for part in reversed(key) if isinstance(part, str)), None)
    return next((each.description for own, each in owner.model_fields.items() if (each.alias or own) == name), None)


def _written(key: Key, file: YamlFile) -> str | None:
    place = file.places.get(key)
    return place.text if place else None


def _value(key: Key, file: YamlFile) -> object:
    value = file.value
    for part in key:
        value = value[part]
    return value


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
