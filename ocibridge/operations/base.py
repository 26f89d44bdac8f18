# SPDX-License-Identifier: Apache-2.0
"""What all reports have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Report(BaseModel):
    """Base of all reports: camelCase keys in JSON, nothing left out."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, serialize_by_alias=True)

    def to_json(self) -> str:
        """The report as indented JSON."""
        return self.model_dump_json(by_alias=True, indent=2)
