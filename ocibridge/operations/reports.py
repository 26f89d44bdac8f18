# SPDX-License-Identifier: Apache-2.0
"""What the operations return, and what `--json` prints; JSON Schemas of these types are in `schemas/`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ..oci import Digest
from .base import Report
from .inspected import FileReport, InfoReport, InspectReport, LayerReport
from .pulled import PullReport
from .pushed import AlsoReport, PushedLayer, PushReport, layer_reports, pushed_layers

__all__ = [
    "AlsoReport",
    "ConvertReport",
    "CopiedCompanion",
    "CopyReport",
    "FileReport",
    "InfoReport",
    "InspectReport",
    "LayerReport",
    "PlatformReport",
    "PrepareReport",
    "PullReport",
    "PushReport",
    "PushedLayer",
    "Report",
    "RewriteReport",
    "VerifyReport",
    "layer_reports",
    "pushed_layers",
]


class PlatformReport(Report):
    """The image for one platform."""

    platform: str = Field(description="OS/ARCHITECTURE, or OS/ARCHITECTURE/VARIANT")
    digest: Digest = Field(description="digest of its manifest")


class PrepareReport(Report):
    """Result of `volume prepare`."""

    source: str = Field(description="pinned reference of the artifact")
    reference: str = Field(description="pinned reference of the image: what a pod mounts")
    digest: Digest = Field(description="digest of the index")
    tag: str
    platforms: list[PlatformReport]
    layers: list[PushedLayer]
    warnings: list[str]


class ConvertReport(Report):
    """Result of `convert`."""

    source: str = Field(description="pinned reference, or path, of what was read")
    source_dialect: str | None = Field(description="null where the source was a box")
    reference: str = Field(description="pinned reference of what was written")
    digest: Digest = Field(description="digest of the manifest written")
    tag: str | None
    dialect: str
    identity: str | None = Field(description="as recorded; `verify` proves it")
    format: str | None = Field(description="format of the model, as recorded")
    layers: list[PushedLayer]
    warnings: list[str]


class CopiedCompanion(Report):
    """A copied companion."""

    kind: Literal["ollama", "image"]
    tag: str = Field(description="its tag at the target")
    digest: Digest = Field(description="digest of its manifest")


class CopyReport(Report):
    """Result of `copy`."""

    source: str = Field(description="pinned reference of what was copied")
    reference: str = Field(description="pinned reference of the copy")
    digest: Digest = Field(description="digest of the manifest or index, the same on both sides")
    media_type: str = Field(description="its media type")
    tag: str | None = Field(description="its tag at the target")
    copied: int = Field(description="blobs that moved")
    copied_bytes: int = Field(description="their size in bytes")
    mounted: int = Field(description="blobs that the registry took over from another of its repositories")
    mounted_bytes: int = Field(description="their size in bytes")
    present: int = Field(description="blobs that the target had")
    present_bytes: int = Field(description="their size in bytes")
    manifests: int = Field(description="manifests and indexes that were pushed")
    referrers: int = Field(description="manifests that refer to what was copied, whether they had to be pushed or not")
    tags: list[str] = Field(description="tags that lead to something of it at the target")
    companions: list[CopiedCompanion] = Field([], description="copied companions")
    warnings: list[str]


class RewriteReport(Report):
    """Result of `convert` from a box on disk to another box on disk."""

    source: str
    source_format: str
    source_identity: str | None
    path: str
    format: str = Field(description="format written")
    identity: str | None = Field(description="identity of what was written, proven from its bytes")
    files: int
    size: int = Field(description="bytes of all files")
    note: str | None = Field(None, description="for an archive that is rebuilt: exact, or equivalent")
    losses: list[str] = Field([], description="what the target cannot express")
    warnings: list[str]


class VerifyReport(Report):
    """Result of `verify`; there is one only where everything held."""

    subject: str
    identity: str | None
    digest: Digest | None = None
    files: int
    size: int = Field(description="bytes read and checked")
    linked: int = Field(0, description="files that are only linked, and were not checked")
    proven: list[str] = Field(description="one sentence per statement that now holds")
    warnings: list[str] = Field([])
