# SPDX-License-Identifier: Apache-2.0
"""Reports of the operations, as `--json` prints them; their JSON Schemas are in `schemas/`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from ..oci import Digest
from ..report import JsonReport, Moves, Report, Time, schema_named

if TYPE_CHECKING:
    from ..model import FileEntry, Model, ModelFile, ModelInfo
    from ..transfer import LayerAction, Published


class PushedLayer(Report):
    """One layer of a push."""

    digest: Digest
    size: int = Field(description="bytes")
    media_type: str
    action: Literal["uploaded", "skipped", "mounted"]


class AlsoReport(Report):
    """A published companion."""

    kind: str = Field(description="image, or the name of the format whose manifest it is")
    reference: str = Field(description="pinned reference, …@sha256:…")
    digest: Digest = Field(description="digest of its manifest")
    tag: str = Field(description="first of its tags")
    tags: list[str] = Field(description="its tags, one for each tag of the artifact")


class PushReport(JsonReport):
    """Result of `push`."""

    schema_id: str = schema_named("push")
    source: str = Field(description="path, or name, of what was read")
    target: str = Field(description="reference of what was written, with its tag")
    reference: str = Field(description="pinned reference, …@sha256:…")
    digest: Digest = Field(description="digest of the manifest")
    tag: str = Field(description="first of its tags")
    tags: list[str] = Field(description="all tags that lead to it now")
    identity: str | None = Field(description="what a round trip keeps, such as carton:<manifest hash>")
    format: str = Field(description="format of the source")
    layers: list[PushedLayer]
    left_out_count: int = Field(0, description="files and folders of a folder that are no part of the model")
    also: list[AlsoReport] = Field([])
    warnings: list[str]


_ACTIONS: dict[str, Literal["uploaded", "skipped", "mounted"]] = {
    "copied": "uploaded",
    "present": "skipped",
    "mounted": "mounted",
}


def pushed_layers(done: Published) -> list[PushedLayer]:
    """Return a report for each layer."""
    return layer_reports(done.layers)


def layer_reports(layers: Sequence[LayerAction]) -> list[PushedLayer]:
    """Return a report for each of some layers."""
    return [
        PushedLayer(
            digest=each.descriptor.digest,
            size=each.descriptor.size,
            media_type=each.descriptor.media_type,
            action=_ACTIONS[each.action],
        )
        for each in layers
    ]


class FileChanges(Report):
    """Numbers of files of a target."""

    added: int = Field(0, description="files that were not there")
    updated: int = Field(0, description="files that replaced others")
    kept: int = Field(0, description="files that were there with the same bytes, and were left alone")


class PlannedFile(Report):
    """One file of a dry run."""

    path: str
    size: int | None = Field(description="bytes, where they are known before anything is read")
    action: Literal["add", "update", "keep", "compare"] = Field(
        description="compare: there is a file of this size, and its bytes decide whether it is kept"
    )


class PullReport(JsonReport):
    """Result of `pull`."""

    schema_id: str = schema_named("pull")
    source: str = Field(description="pinned reference of what was read")
    source_format: str | None = Field(description="format of the model, as recorded")
    source_dialect: str
    source_identity: str | None = Field(description="as recorded")
    digest: Digest = Field(description="digest of the manifest")
    target: str = Field(description="path, or name, of what was written")
    identity: str | None = Field(description="identity of what was written, proven from its bytes")
    format: str = Field(description="format written")
    file_count: int
    selected_from: int | None = Field(
        None, description="number of files of the model, where --include and --exclude selected some of them"
    )
    size: int = Field(description="bytes of all layers that were needed")
    kept: int = Field(
        0, description="of these, bytes that an interrupted pull had left and that were not fetched again"
    )
    changes: FileChanges = Field(FileChanges(), description="how many files of the target are new")
    dry_run: bool = Field(False, description="whether this is what would be written, and nothing was")
    files: list[PlannedFile] = Field([], description="files of a dry run; an archive is one")
    note: str | None = Field(None, description="for an archive that is rebuilt: exact, or equivalent")
    losses: list[str] = Field([], description="what the target cannot express")
    warnings: list[str]


class PlatformReport(Report):
    """The image for one platform."""

    platform: str = Field(description="OS/ARCHITECTURE, or OS/ARCHITECTURE/VARIANT")
    digest: Digest = Field(description="digest of its manifest")


class PrepareReport(JsonReport):
    """Result of `volume prepare`."""

    schema_id: str = schema_named("volume-prepare")
    source: str = Field(description="pinned reference of the artifact")
    target: str = Field(description="reference of the image, with its tag")
    reference: str = Field(description="pinned reference of the image: what a pod mounts")
    digest: Digest = Field(description="digest of the index")
    tag: str
    platforms: list[PlatformReport]
    layers: list[PushedLayer]
    warnings: list[str]


class ConvertReport(JsonReport):
    """Result of `convert`. What only one of artifacts and files on disk has is null, or empty, for the other."""

    schema_id: str = schema_named("convert")
    source: str = Field(description="path, or pinned reference, of what was read")
    source_format: str | None = Field(description="format of the model that was read, as recorded in an artifact")
    source_dialect: str | None = Field(None, description="dialect of an artifact that was read")
    source_identity: str | None = Field(description="as recorded; `verify` proves it")
    target: str = Field(description="path of what was written, or its reference with its tag")
    format: str | None = Field(description="format of the model that was written, as recorded in an artifact")
    identity: str | None = Field(description="identity of what was written: proven from its bytes on disk, or recorded")
    reference: str | None = Field(None, description="pinned reference of an artifact that was written")
    digest: Digest | None = Field(None, description="digest of its manifest")
    tag: str | None = Field(None, description="its tag")
    dialect: str | None = Field(None, description="its dialect")
    layers: list[PushedLayer] = Field([], description="its layers")
    file_count: int | None = Field(None, description="number of files of a model that was written to disk")
    selected_from: int | None = Field(
        None, description="number of files of the model, where --include and --exclude selected some of them"
    )
    size: int | None = Field(None, description="bytes of these files, or of the layers from which they were written")
    kept: int = Field(0, description="bytes that an interrupted run had left and that were not fetched again")
    changes: FileChanges = Field(FileChanges(), description="how many files of the target are new")
    dry_run: bool = Field(False, description="whether this is what would be written, and nothing was")
    files: list[PlannedFile] = Field([], description="files of a dry run; an archive is one")
    note: str | None = Field(None, description="for an archive that is rebuilt: exact, or equivalent")
    losses: list[str] = Field([], description="what the target cannot express")
    warnings: list[str]


class CopiedCompanion(Report):
    """A copied companion."""

    kind: str = Field(description="image, or the name of the format whose manifest it is")
    tag: str = Field(description="its tag at the target")
    digest: Digest = Field(description="digest of its manifest")


class CopyReport(JsonReport):
    """Result of `copy`."""

    schema_id: str = schema_named("copy")
    source: str = Field(description="pinned reference of what was copied")
    target: str = Field(description="reference of the copy, with its tag where it has one")
    reference: str = Field(description="pinned reference of the copy")
    digest: Digest = Field(description="digest of the manifest or index, the same on both sides")
    media_type: str = Field(description="its media type")
    tag: str | None = Field(description="its tag at the target")
    moves: Moves = Field(description="blobs and manifests, with those of referrers and companions")
    referrers: int = Field(description="manifests that refer to what was copied, whether they had to be pushed or not")
    tags: list[str] = Field(description="tags that lead to something of it at the target")
    companions: list[CopiedCompanion] = Field([], description="copied companions")
    dry_run: bool = Field(False, description="whether this is what a copy would do, and nothing was written")
    warnings: list[str]


class VerifyReport(JsonReport):
    """Result of `verify`; there is one only where everything held."""

    schema_id: str = schema_named("verify")
    source: str = Field(description="path, or pinned reference, of what was read")
    verified: bool = Field(True, description="false where there was nothing to compare the bytes with")
    pulled_from: str | None = Field(
        None, description="where nothing is verified: the pinned reference that the folder was pulled from"
    )
    against: str | None = Field(None, description="the path, or pinned reference, of the model it was compared with")
    identity: str | None
    digest: Digest | None = None
    file_count: int
    size: int = Field(description="bytes read and checked")
    linked_count: int = Field(0, description="files that are only linked, and were not checked")
    proven: list[str] = Field(description="one sentence per statement that now holds")
    warnings: list[str] = Field([])


class TagsReport(JsonReport):
    """Result of `tags`."""

    schema_id: str = schema_named("tags")
    source: str = Field(description="the repository, layout or archive")
    tags: list[str]
    warnings: list[str]


class LsReport(JsonReport):
    """Result of `ls`."""

    schema_id: str = schema_named("ls")
    source: str = Field(description="host of the registry")
    repositories: list[str]
    warnings: list[str]


class TagReport(JsonReport):
    """Result of `tag`."""

    schema_id: str = schema_named("tag")
    source: str = Field(description="pinned reference")
    digest: Digest = Field(description="digest of the manifest or index")
    tags: list[str] = Field(description="the new tags")
    warnings: list[str]


class RemovedReport(Report):
    """Something that was deleted."""

    kind: Literal["tag", "manifest"]
    reference: str = Field(description="pinned reference")
    digest: Digest = Field(description="digest of the manifest or index")
    tag: str | None = Field(None, description="the tag, where a tag alone was deleted")
    tags: list[str] = Field(description="the tags that are gone")


class RmReport(JsonReport):
    """Result of `rm`."""

    schema_id: str = schema_named("rm")
    target: str = Field(description="reference as it was given")
    digest: Digest = Field(description="digest of the manifest or index")
    dry_run: bool = Field(description="whether nothing was deleted")
    removed: list[RemovedReport] = Field(description="what was deleted, or would be, in this order")
    warnings: list[str]


class DiffSide(Report):
    """One of two models that are compared."""

    source: str = Field(description="path, or pinned reference")
    digest: Digest | None = Field(description="digest of the manifest, of an artifact")
    format: str | None
    identity: str | None = Field(description="as recorded; `verify` proves it")


class FileDifference(Report):
    """A file that differs."""

    path: str
    change: Literal["added", "removed", "changed"]
    before_size: int | None = Field(description="bytes; null if it was added")
    after_size: int | None = Field(description="bytes; null if it was removed")
    before_sha256: str | None = Field(description="null where nothing says it")
    after_sha256: str | None = Field(description="null where nothing says it")


class ValueDifference(Report):
    """A value that differs."""

    key: str
    before: str | None
    after: str | None


class LayerDifference(Report):
    """Layers of two artifacts."""

    shared: int = Field(description="layers that both have")
    shared_size: int = Field(description="bytes")
    removed: int = Field(description="layers that only the first has")
    removed_size: int = Field(description="bytes")
    added: int = Field(description="layers that only the second has, which an update moves")
    added_size: int = Field(description="bytes")


class DiffReport(JsonReport):
    """Result of `diff`."""

    schema_id: str = schema_named("diff")
    before: DiffSide
    after: DiffSide
    same: bool = Field(description="whether nothing differs")
    files: list[FileDifference] = Field(description="files that differ")
    same_count: int = Field(description="files that do not; 0 where both are the same manifest")
    metadata: list[ValueDifference]
    annotations: list[ValueDifference] = Field(description="annotations of the manifests of two artifacts")
    layers: LayerDifference | None = Field(description="null where a side is no artifact")
    warnings: list[str]


class LoginReport(JsonReport):
    """Result of `login`."""

    schema_id: str = schema_named("login")
    host: str
    username: str
    proven: bool = Field(description="whether the registry checked the credentials; one that needs no login has not")


class LogoutReport(JsonReport):
    """Result of `logout`."""

    schema_id: str = schema_named("logout")
    host: str
    removed: bool = Field(description="whether there were credentials")


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
    file_count: int = Field(description="files that the manifest lists for it; 0 where it does not say")


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
    created_at: Time | None = None
    architecture: str | None = None
    format: str | None = None
    param_size: str | None = None
    precision: str | None = None
    quantization: str | None = None


class CompanionReport(Report):
    """A companion of an artifact."""

    kind: str = Field(description="image, or the name of the format whose manifest it is")
    tag: str
    reference: str = Field(description="pinned reference")


class ReferrerReport(Report):
    """A manifest that refers to another one, such as a signature or an SBOM."""

    reference: str = Field(description="pinned reference")
    media_type: str
    artifact_type: str | None
    size: int = Field(description="bytes of the manifest")
    annotations: dict[str, str]
    referrers: list[ReferrerReport] = Field(description="manifests that refer to this one")


class InspectReport(JsonReport):
    """Result of `inspect`. `digest`, `dialect`, `layers` and `annotations` are those of an artifact only."""

    schema_id: str = schema_named("inspect")
    source: str = Field(description="path, or pinned reference, of what was read")
    kind: Literal["path", "artifact"]
    format: str | None
    identity: str | None = Field(description="as recorded; `verify` proves it")
    digest: Digest | None = None
    dialect: str | None = None
    artifact_type: str | None = None
    info: InfoReport
    origin: dict[str, str] = Field(description="what the format needs to restore the source")
    size: int = Field(description="bytes of all files of a path, and of all layers of an artifact")
    files: list[FileReport]
    layers: list[LayerReport] = Field([])
    annotations: dict[str, str] = Field({})
    companions: list[CompanionReport] = Field([])
    referrers: list[ReferrerReport] = Field([])
    warnings: list[str] = Field([])


def info_report(info: ModelInfo) -> InfoReport:
    """`ModelInfo` as a report."""
    values = {each.name: getattr(info, each.name) for each in fields(info)}
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


def path_report(source: str, model: Model) -> InspectReport:
    """A model on disk as a report."""
    return InspectReport(
        source=source,
        kind="path",
        format=model.format,
        identity=model.identity,
        info=info_report(model.info),
        origin=dict(model.origin),
        size=sum(each.size for each in model.files),
        files=[file_report(each) for each in model.files] + [file_report(each, linked=True) for each in model.linked],
        warnings=list(model.warnings),
    )
