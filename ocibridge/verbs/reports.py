# SPDX-License-Identifier: Apache-2.0
"""What the verbs return, and what `--json` prints; JSON Schemas of these types are in `schemas/`."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from ..model import FileEntry, Model, ModelInfo
from ..oci import Digest
from ..transfer import Published


class Report(BaseModel):
    """Base of all reports: camelCase keys in JSON, nothing left out."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, serialize_by_alias=True)

    def to_json(self) -> str:
        """The report as indented JSON."""
        return self.model_dump_json(by_alias=True, indent=2)


class PushedLayer(Report):
    """One layer of a push."""

    digest: Digest
    size: int = Field(description="bytes")
    media_type: str
    action: Literal["uploaded", "skipped", "mounted"]


class AlsoReport(Report):
    """Something published beside the artifact."""

    kind: Literal["ollama"]
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
    also: list[AlsoReport] = []
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


class FileReport(Report):
    """One file of a model."""

    path: str
    role: str
    size: int | None = Field(description="bytes; null where only the layer's tar header tells")
    sha256: str | None
    symlink: str | None


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
    authors: list[str] = []
    licenses: list[str] = []
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
    layers: list[LayerReport] = []
    annotations: dict[str, str] = {}
    warnings: list[str] = []


class VerifyReport(Report):
    """Result of `verify`; there is one only where everything held."""

    subject: str
    identity: str | None
    digest: Digest | None = None
    files: int
    size: int = Field(description="bytes read and checked")
    proven: list[str] = Field(description="one sentence per statement that now holds")
    warnings: list[str] = []


def pushed_layers(done: Published) -> list[PushedLayer]:
    """What happened to each layer."""
    return [
        PushedLayer(
            digest=each.descriptor.digest,
            size=each.descriptor.size,
            media_type=each.descriptor.media_type,
            action=each.action,
        )
        for each in done.layers
    ]


def info_report(info: ModelInfo) -> InfoReport:
    """`ModelInfo` as a report."""
    return InfoReport(
        name=info.name,
        title=info.title,
        description=info.description,
        version=info.version,
        revision=info.revision,
        vendor=info.vendor,
        family=info.family,
        authors=list(info.authors),
        licenses=list(info.licenses),
        doc_url=info.doc_url,
        source_url=info.source_url,
        created_at=info.created_at.isoformat() if info.created_at else None,
        architecture=info.architecture,
        format=info.format,
        param_size=info.param_size,
        precision=info.precision,
        quantization=info.quantization,
    )


def file_report(file: FileEntry) -> FileReport:
    """`FileEntry` as a report."""
    return FileReport(path=file.path, role=file.role.value, size=file.size, sha256=file.sha256, symlink=file.symlink)


def path_report(subject: str, model: Model) -> InspectReport:
    """A model on disk as a report."""
    return InspectReport(
        subject=subject,
        kind="path",
        format=model.format,
        identity=model.identity,
        info=info_report(model.info),
        origin=dict(model.origin),
        files=[
            FileReport(
                path=each.path,
                role=each.role.value,
                size=each.size,
                sha256=each.sha256,
                symlink=each.symlink,
            )
            for each in model.files
        ],
        warnings=list(model.warnings),
    )
