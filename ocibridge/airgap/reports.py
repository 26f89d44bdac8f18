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
    manifest_count: int = Field(description="its manifests, including referrers")
    blob_count: int = Field(description="its blobs")
    size: int = Field(description="bytes of its blobs")


class PackReport(JsonReport):
    """Result of `pack`."""

    schema_id: str = schema_named("airgap-pack")
    target: str = Field(description="path of the archive, also where it is split")
    volumes: list[VolumeReport] = Field(description="its files")
    references: list[PackedReference]
    totals: Moves = Field(
        description="blobs and manifests in the archive; those present are left out: the other side has them"
    )
    kept: int = Field(description="bytes of the archive that an interrupted run had written")
    inventory: str | None = Field(description="path of the inventory that was written")
    warnings: list[str]


class UnpackedReference(Report):
    """A restored name."""

    name: str = Field(description="name in the archive")
    target: str = Field(description="reference on this side, with its tag where it has one")
    reference: str = Field(description="pinned reference on this side")
    digest: Digest = Field(description="digest of the manifest or index")
    moves: Moves = Field(description="blobs and manifests that were transferred")


class UnpackReport(JsonReport):
    """Result of `unpack`."""

    schema_id: str = schema_named("airgap-unpack")
    source: str = Field(description="path of the archive, also where it is split")
    target: str
    references: list[UnpackedReference]
    totals: Moves = Field(description="sum of all moves")
    expected_count: int = Field(description="blobs that are not in the archive and that the target has")
    inventory: str | None = Field(description="path of the inventory that was written")
    warnings: list[str]
