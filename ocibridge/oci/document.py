# SPDX-License-Identifier: Apache-2.0
"""JSON documents: bounded strict reading, and writing as the Go reference types do."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from ..errors import FormatError, LimitError
from ..paths import show

_HINT = "it is damaged, or not what its name says"
_GO_ESCAPES = {char.encode(): f"\\u{ord(char):04x}".encode() for char in "<>&\u2028\u2029"}


class Document(BaseModel):
    """A JSON document of a specification: camelCase keys, unknown keys ignored on reading.

    The order of the fields is the order of the reference implementation's Go struct, and is the order written.
    """

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True, serialize_by_alias=True
    )

    def to_json(self) -> bytes:
        """The document as `canonical_json`, without the fields that are None."""
        # Straight to bytes: as a dictionary, the document of very many files would be several times as large.
        return _escaped(self.__pydantic_serializer__.to_json(self, by_alias=True, exclude_none=True))


DocumentT = TypeVar("DocumentT", bound=Document)


def canonical_json(value: Any) -> bytes:
    """`value` as Go's `json.Marshal` writes it: compact, UTF-8, `<`, `>`, `&`, U+2028 and U+2029 escaped.

    Tools written in Go re-serialise a manifest before they hash it; equal bytes give them the same digest. The keys
    of structs keep the order given; the caller sorts the keys of maps, as Go does.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return _escaped(text.encode("utf-8"))


def _escaped(data: bytes) -> bytes:
    for char, escape in _GO_ESCAPES.items():
        data = data.replace(char, escape)
    return data


def parse_json(data: bytes, owner: str, limit: int) -> Any:
    """Parse JSON from outside.

    Args:
        data: The bytes.
        owner: Description of the bytes for messages.
        limit: Largest size accepted, in bytes.

    Raises:
        LimitError: there are more than `limit` bytes.
        FormatError: the bytes are no JSON, repeat a key, or nest too deeply.
    """
    return _parse(data, owner, limit, _unique)


def _parse(data: bytes, owner: str, limit: int, make: Callable[[list[tuple[str, Any]]], Any]) -> Any:
    if len(data) > limit:
        raise LimitError(f"{owner} has {len(data)} bytes, more than the {limit} accepted", hint=_HINT)
    try:
        return json.loads(data, object_pairs_hook=make, parse_constant=_no_constant)
    except ValidationError as exc:
        raise FormatError(f"{owner} is not valid: {first_problem(exc)}", hint=_HINT) from None
    except RecursionError:
        raise FormatError(f"{owner} is nested too deeply", hint=_HINT) from None
    except ValueError as exc:
        raise FormatError(f"{owner} is not valid JSON ({exc})", hint=_HINT) from None


def parse_document(
    kind: type[DocumentT], data: bytes, owner: str, limit: int, part: Callable[[dict[str, Any]], Any] | None = None
) -> DocumentT:
    """Parse and validate a JSON document from outside.

    Args:
        kind: Type of the document.
        data: The bytes.
        owner: Description of the bytes for messages.
        limit: Largest size accepted, in bytes.
        part: Converts each JSON object as soon as it is read, innermost first, so that the objects of a document with
            very many parts are never held all at once.

    Raises:
        LimitError: there are more than `limit` bytes.
        FormatError: the bytes are no JSON, or not a document of this kind.
    """
    # pydantic lets repeated keys pass; for the check, nothing need be kept of what may be very large.
    convert = part or (lambda fields: fields and {})
    document = _parse(data, owner, limit, lambda pairs: convert(_unique(pairs)))
    if not isinstance(document, dict):
        raise FormatError(f"{owner} is not a JSON object", hint=_HINT)
    try:
        return kind.model_validate(document, strict=True) if part else kind.model_validate_json(data, strict=True)
    except ValidationError as exc:
        raise FormatError(f"{owner} is not valid: {first_problem(exc)}", hint=_HINT) from None


def first_problem(exc: ValidationError) -> str:
    """The first problem that pydantic found, as `key.path: what is wrong`."""
    error = exc.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in error["loc"])
    what = error["msg"][0].lower() + error["msg"][1:]
    return f"{where}: {what}" if where else what


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {show(key)} appears twice")
        found[key] = value
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")
