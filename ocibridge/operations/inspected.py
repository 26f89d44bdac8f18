# SPDX-License-Identifier: Apache-2.0
"""What `inspect` returns; apart from the other reports, whose import would take longer than the inspection."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from ..oci import Digest
from .base import Report

if TYPE_CHECKING:
    from ..model import FileEntry, Model, ModelFile, ModelInfo


class FileReport(Report):
    """One file of a model."""

    path: str
    role: str
    size: int | None = Field(description="bytes; null where only the layer's tar header tells")
    sha256: str | None
    symlink: str | None
    linked: bool = Field(False, description="whether the file is not there, but named by URL")


class LayerReport(Report):
    """One layer of an artifact."""

    digest: Digest
    size: int = Field(description="bytes")
    media_type: str
    diff_id: str | None
    files: int = Field(description="files that the manifest lists for it; 0 where it does not say")


class InfoReport(Report):
    """Metadata, in the words of the config schema."""

    name: str | None = None
    title: str | None = None
    description: str | None = None
    version: str | None = None
    revision: str | None = None
    vendor: str | None = None
    family: str | None = None
    authors: list[str] = Field([])
    licenses: list[str] = Field([])
    doc_url: str | None = Field(None, alias="docURL")
    source_url: str | None = Field(None, alias="sourceURL")
    created_at: str | None = None
    architecture: str | None = None
    format: str | None = None
    param_size: str | None = None
    precision: str | None = None
    quantization: str | None = None


class InspectReport(Report):
    """Result of `inspect`. `digest`, `dialect`, `layers` and `annotations` are those of an artifact only."""

    subject: str = Field(description="the path, or the pinned reference")
    kind: Literal["path", "artifact"]
    format: str | None
    identity: str | None = Field(description="as recorded; `verify` proves it")
    digest: Digest | None = None
    dialect: str | None = None
    artifact_type: str | None = None
    info: InfoReport
    origin: dict[str, str] = Field(description="what the format needs to restore the source")
    files: list[FileReport]
    layers: list[LayerReport] = Field([])
    annotations: dict[str, str] = Field({})
    warnings: list[str] = Field([])


def info_report(info: ModelInfo) -> InfoReport:
    """`ModelInfo` as a report."""
    values = {each.name: getattr(info, each.name) for each in fields(info)}
    values["created_at"] = info.created_at.isoformat() if info.created_at else None
    return InfoReport.model_validate({**values, "authors": list(info.authors), "licenses": list(info.licenses)})


def file_report(file: FileEntry | ModelFile, *, linked: bool = False) -> FileReport:
    """`FileEntry` or `ModelFile` as a report."""
    return FileReport(
        path=file.path,
        role=file.role.value,
        size=file.size,
        sha256=file.sha256,
        symlink=file.symlink,
        linked=linked,
    )


def path_report(subject: str, model: Model) -> InspectReport:
    """A model on disk as a report."""
    return InspectReport(
        subject=subject,
        kind="path",
        format=model.format,
        identity=model.identity,
        info=info_report(model.info),
        origin=dict(model.origin),
        files=[file_report(each) for each in model.files] + [file_report(each, linked=True) for each in model.linked],
        warnings=list(model.warnings),
    )
