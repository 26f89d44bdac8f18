# SPDX-License-Identifier: Apache-2.0
"""Reports of `pack` and `unpack`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ..oci import Digest
from ..report import JsonReport, Moves, Report, schema_named


class VolumeReport(Report):
    """A file of the archive."""

    path: str
    size: int = Field(description="bytes")
    digest: Digest | None = Field(description="sha256 of a volume; null for an archive that is not split")


class PackedReference(Report):
    """A packed name."""

    name: str = Field(description="HOST/REPOSITORY:TAG, or the tag of a layout")
    digest: Digest = Field(description="digest of the manifest or index")
    action: Literal["packed", "unchanged"] = Field(description="unchanged: the other side has all of it")
    manifests: int = Field(description="number of its manifests, including referrers")
    blobs: int = Field(description="number of its blobs")
    size: int = Field(description="bytes of these")


class PackReport(JsonReport):
    """Result of `pack`."""

    schema_id: str = schema_named("airgap-pack")
    archive: str = Field(description="path of the archive, also where it is split")
    volumes: list[VolumeReport] = Field(description="its files")
    references: list[PackedReference]
    manifests: int = Field(description="manifests in the archive")
    blobs: int = Field(description="blobs in the archive")
    blob_bytes: int = Field(description="bytes of these")
    kept: int = Field(description="bytes of the archive that an interrupted run had written")
    left_out: int = Field(description="blobs that are left out because the other side has them")
    left_out_bytes: int = Field(description="bytes of these")
    inventory: str | None = Field(description="path of the inventory that was written")
    warnings: list[str]


class UnpackedReference(Report):
    """A restored name."""

    name: str = Field(description="name in the archive")
    reference: str = Field(description="reference on this side")
    digest: Digest = Field(description="digest of the manifest or index")
    moves: Moves = Field(description="blobs and manifests that were transferred")

    @property
    def pinned(self) -> str:
        """The reference with its digest."""
        return self.reference if "@" in self.reference else f"{self.reference}@{self.digest}"


class UnpackReport(JsonReport):
    """Result of `unpack`."""

    schema_id: str = schema_named("airgap-unpack")
    archive: str = Field(description="path of the archive, also where it is split")
    target: str
    references: list[UnpackedReference]
    totals: Moves = Field(description="sum of all moves")
    expected: int = Field(description="blobs that are not in the archive and that the target has")
    inventory: str | None = Field(description="path of the inventory that was written")
    warnings: list[str]
