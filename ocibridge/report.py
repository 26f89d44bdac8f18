# SPDX-License-Identifier: Apache-2.0
"""The base of all reports, and the counts that many of them have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class Report(BaseModel):
    """Base of all reports: camelCase keys in JSON, nothing left out."""

    model_config = ConfigDict(
        frozen=True, alias_generator=to_camel, populate_by_name=True, serialize_by_alias=True, defer_build=True
    )

    def to_json(self) -> str:
        """The report as indented JSON."""
        return "\n".join(self.json_pieces())

    def json_pieces(self, indent: int | None = 2) -> Iterator[str]:
        """The report as JSON, piece by piece, for reports that may be large: whole lines where it is indented."""
        yield self.model_dump_json(by_alias=True, indent=indent)


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
