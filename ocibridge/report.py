# SPDX-License-Identifier: Apache-2.0
"""The base of all reports, and what many of them have: times, counts, errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, WithJsonSchema
from pydantic.alias_generators import to_camel

from .about import SCHEMAS, USER_AGENT


def rfc3339(moment: datetime) -> str:
    """A moment as every JSON document has it: RFC 3339, UTC, milliseconds.

    Example:
        >>> rfc3339(datetime(2026, 1, 31, 9, 30, tzinfo=timezone.utc))
        '2026-01-31T09:30:00.000Z'
    """
    return moment.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


Time = Annotated[
    datetime, PlainSerializer(rfc3339, when_used="json"), WithJsonSchema({"type": "string", "format": "date-time"})
]
"""A moment; `rfc3339` in JSON."""


def now() -> datetime:
    """The present, in UTC."""
    return datetime.now(timezone.utc)


def generator() -> Any:
    """The field `generator` of a document; not its default, which would be in its schema."""
    return Field(
        default_factory=lambda: USER_AGENT, repr=False, description="program that wrote the document, with its version"
    )


def schema_named(name: str) -> Any:
    """The field `schema_id` of a `JsonReport`.

    Args:
        name: Name of the schema, as in `schemas/NAME.json`.
    """
    text = SCHEMAS + name
    return Field(text, alias="$schema", repr=False, json_schema_extra={"const": text})


class Report(BaseModel):
    """Base of reports and their parts: camelCase keys in JSON, nothing left out."""

    model_config = ConfigDict(
        frozen=True, alias_generator=to_camel, populate_by_name=True, serialize_by_alias=True, defer_build=True
    )

    def to_json(self) -> str:
        """The report as indented JSON."""
        return "\n".join(self.json_pieces())

    def json_pieces(self, indent: int | None = 2) -> Iterator[str]:
        """The report as JSON, piece by piece, for reports that may be large: whole lines where it is indented."""
        yield self.model_dump_json(by_alias=True, indent=indent)


class JsonReport(Report):
    """Base of reports that are JSON documents of their own.

    Attributes:
        schema_id: `$schema` in JSON: `$id` of the schema that the document follows.
        generator: Program that wrote it, with its version.
    """

    schema_id: str = schema_named("")
    generator: str = generator()


class Failure(Report):
    """An error.

    Attributes:
        type: Name of the error's class.
        message: One sentence.
        hint: What to do next.
    """

    type: str
    message: str
    hint: str | None = None


class ErrorReport(JsonReport):
    """The error of a command, on standard error with `--json` or `--progress json`."""

    schema_id: str = schema_named("error")
    error: Failure


class Moves(Report):
    """Counts of blobs and manifests, by what happens to them."""

    copied: int = Field(0, description="blobs that move from the source to the target")
    copied_bytes: int = Field(0, description="their size in bytes")
    mounted: int = Field(0, description="blobs that the registry takes over from another of its repositories")
    mounted_bytes: int = Field(0, description="their size in bytes")
    present: int = Field(0, description="blobs that the target has")
    present_bytes: int = Field(0, description="their size in bytes")
    manifests: int = Field(0, description="manifests and indexes that are pushed, referrers among them")

    @staticmethod
    def sum(moves: Iterable[Moves]) -> Moves:
        """All of them together."""
        total: dict[str, int] = {}
        for each in moves:
            for key in Moves.model_fields:
                total[key] = total.get(key, 0) + getattr(each, key)
        return Moves(**total)
