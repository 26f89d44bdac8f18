# SPDX-License-Identifier: Apache-2.0
"""What `pack` and `unpack` say of themselves."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ..oci import Digest
from ..operations.base import Report
from ..operations.moves import Moves


class VolumeReport(Report):
    """A file of an archive."""

    path: str
    size: int = Field(description="bytes")
    digest: Digest | None = Field(description="sha256 of a volume; null for an archive that is not split")


class PackedReference(Report):
    """A name, and what became of it."""

    name: str = Field(description="HOST/REPOSITORY:TAG, or a tag alone where it came from a layout")
    digest: Digest = Field(description="digest of the manifest or index")
    action: Literal["packed", "unchanged"] = Field(
        description="unchanged: the inventory says that the other side has it all"
    )
    manifests: int = Field(description="manifests that belong to it, referrers among them")
    blobs: int = Field(description="blobs that belong to it")
    size: int = Field(description="bytes of these")


class PackReport(Report):
    """Result of `pack`."""

    archive: str = Field(description="path of the archive, also where it is split")
    volumes: list[VolumeReport] = Field(description="its files")
    references: list[PackedReference]
    manifests: int = Field(description="manifests in the archive")
    blobs: int = Field(description="blobs in the archive")
    blob_bytes: int = Field(description="bytes of these")
    kept: int = Field(description="bytes of the archive that an interrupted run had left, and that were taken over")
    left_out: int = Field(description="blobs that belong to what is packed, and that the other side has")
    left_out_bytes: int = Field(description="bytes of these")
    inventory: str | None = Field(description="path of the inventory that was written")
    warnings: list[str]


class UnpackedReference(Report):
    """A name of an archive, and where it is now."""

    name: str = Field(description="as it stands in the archive")
    reference: str = Field(description="as it is called on this side")
    digest: Digest = Field(description="digest of the manifest or index")
    moves: Moves = Field(description="what moved")

    @property
    def pinned(self) -> str:
        """The reference with its digest."""
        return self.reference if "@" in self.reference else f"{self.reference}@{self.digest}"


class UnpackReport(Report):
    """Result of `unpack`."""

    archive: str = Field(description="path of the archive, also where it is split")
    target: str
    references: list[UnpackedReference]
    totals: Moves = Field(description="sum of all moves")
    expected: int = Field(description="blobs that the archive lacks, and that the target has")
    inventory: str | None = Field(description="path of the inventory that was written")
    warnings: list[str]
