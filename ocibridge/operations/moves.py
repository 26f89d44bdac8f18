# SPDX-License-Identifier: Apache-2.0
"""What reports say of blobs that went from store to store."""

from __future__ import annotations

from collections.abc import Iterable

from ..transfer.copygraph import CopyResult
from .base import Report


class Moves(Report):
    """What happens, or has happened, to blobs and manifests.

    Attributes:
        copied: Blobs that move from the source to the target.
        copied_bytes: Their size in bytes.
        mounted: Blobs that the target's registry takes over from another of its repositories.
        mounted_bytes: Their size in bytes.
        present: Blobs that the target has.
        present_bytes: Their size in bytes.
        manifests: Manifests and indexes that are pushed, referrers among them.
    """

    copied: int = 0
    copied_bytes: int = 0
    mounted: int = 0
    mounted_bytes: int = 0
    present: int = 0
    present_bytes: int = 0
    manifests: int = 0

    @staticmethod
    def of(done: CopyResult) -> Moves:
        """What a copy has done, or would do."""
        return Moves(**{key: getattr(done, key) for key in Moves.model_fields})

    @staticmethod
    def sum(moves: Iterable[Moves]) -> Moves:
        """All of them together."""
        total: dict[str, int] = {}
        for each in moves:
            for key in Moves.model_fields:
                total[key] = total.get(key, 0) + getattr(each, key)
        return Moves(**total)
