# SPDX-License-Identifier: Apache-2.0
"""Reports of `volume check` and `volume manifest`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from ..oci import Digest
from ..report import JsonReport, Report, schema_named
from .options import Kind

Verdict = Literal["mounts", "empty", "wrong", "refused"]


class MountedFile(Report):
    """A file or link in the mounted volume."""

    path: str = Field(description="path below the mount path")
    size: int = Field(description="bytes")
    sha256: str | None = Field(None, description="null unless it is listed or was read")
    symlink: str | None = Field(None, description="target of a symbolic link")


class UnreadLayer(Report):
    """A layer whose files were not read."""

    digest: Digest
    size: int = Field(description="bytes")
    reason: str


class Prediction(Report):
    """Prediction for one runtime."""

    runtime: Literal["containerd", "cri-o"]
    version: str = Field(description="name and version of the runtime")
    image_volumes: bool = Field(description="whether this version supports image volumes")
    platform: str
    verdict: Verdict = Field(description="mounts: the model; empty: an empty folder; wrong: something else; refused")
    reason: str = Field(description="reason of the verdict, one sentence")
    repair: str | None = Field(None, description="command that repairs the artifact")
    manifest: Digest | None = Field(description="manifest that the runtime selects")
    mounted_as: Literal["image", "artifact"] | None
    files: list[MountedFile]
    unread: list[UnreadLayer] = Field(description="layers whose files were not read")
    complete: bool | None = Field(description="whether every listed file is there; null if none is listed")
    missing: list[str] = Field(description="listed files that are missing, or have another size")
    conflicts: list[str] = Field(description="paths that two layers write with different bytes")
    hazards: list[str]

    @property
    def ok(self) -> bool:
        """True if a pod sees the model."""
        return self.verdict == "mounts" and self.image_volumes


class CompanionImage(Report):
    """Companion image of an artifact."""

    reference: str = Field(description="pinned reference that a pod has to name")
    tag: str | None = Field(description="its tag; null unless it is the usual one")
    platforms: list[str]
    runtimes: list[Prediction]


class VolumeCheckReport(JsonReport):
    """Result of `volume check`."""

    schema_id: str = schema_named("volume-check")
    source: str = Field(description="pinned reference of what was looked at")
    kind: str = Field(description="kind of the artifact, in a few words")
    ok: bool = Field(description="whether a pod that names it sees the model, with each of the runtimes")
    runtimes: list[Prediction]
    companion: CompanionImage | None
    warnings: list[str]


class VolumeManifestReport(JsonReport):
    """Result of `volume manifest`."""

    schema_id: str = schema_named("volume-manifest")
    source: str = Field(description="pinned reference of the artifact")
    image: str = Field(description="pinned reference that the pods name")
    kind: Kind
    documents: list[dict[str, Any]]
    yaml: str = Field(description="the documents as YAML, with comments")
    notes: list[str] = Field(description="requirements of the cluster")
