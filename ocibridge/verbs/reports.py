# SPDX-License-Identifier: Apache-2.0
"""What the verbs return, and what `--json` prints; JSON Schemas of these types are in `schemas/`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from ..oci import Digest
from .base import Report
from .inspected import FileReport, InfoReport, InspectReport, LayerReport

if TYPE_CHECKING:
    from ..transfer import LayerAction, Published

__all__ = [
    "AlsoReport",
    "ConvertReport",
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


class PushedLayer(Report):
    """One layer of a push."""

    digest: Digest
    size: int = Field(description="bytes")
    media_type: str
    action: Literal["uploaded", "skipped", "mounted"]


class AlsoReport(Report):
    """Something published beside the artifact."""

    kind: Literal["ollama", "image"]
    reference: str = Field(description="what its own tools call it, with its tag")
    digest: Digest = Field(description="digest of its manifest")


class PushReport(Report):
    """Result of `push`."""

    reference: str = Field(description="pinned reference, …@sha256:…")
    digest: Digest = Field(description="digest of the manifest")
    tag: str | None
    identity: str | None = Field(description="what a round trip keeps, such as carton:<manifest hash>")
    format: str = Field(description="format of the source")
    layers: list[PushedLayer]
    also: list[AlsoReport] = Field([])
    warnings: list[str]


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
    proven: list[str] = Field(description="one sentence per statement that now holds")
    warnings: list[str] = Field([])


def pushed_layers(done: Published) -> list[PushedLayer]:
    """What happened to each layer."""
    return layer_reports(done.layers)


def layer_reports(layers: Sequence[LayerAction]) -> list[PushedLayer]:
    """What happened to each of some layers."""
    return [
        PushedLayer(
            digest=each.descriptor.digest,
            size=each.descriptor.size,
            media_type=each.descriptor.media_type,
            action=each.action,
        )
        for each in layers
    ]
