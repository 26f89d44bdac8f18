# SPDX-License-Identifier: Apache-2.0
"""What `pull` returns."""

from __future__ import annotations

from pydantic import Field

from ..oci import Digest
from .base import Report


class PullReport(Report):
    """Result of `pull`."""

    reference: str = Field(description="pinned reference of what was pulled")
    digest: Digest
    identity: str | None = Field(description="identity of what was written, proven from its bytes")
    format: str = Field(description="format written")
    path: str
    files: int
    size: int = Field(description="bytes of all layers")
    kept: int = Field(
        0, description="of these, bytes that an interrupted pull had left and that were not fetched again"
    )
    note: str | None = Field(None, description="for an archive that is rebuilt: exact, or equivalent")
    losses: list[str] = Field([], description="what the target cannot express")
    warnings: list[str]
