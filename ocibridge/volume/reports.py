# SPDX-License-Identifier: Apache-2.0
"""What `volume check` and `volume manifest` return."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from ..oci import Digest
from ..operations.base import Report

Verdict = Literal["mounts", "empty", "wrong", "refused"]
Kind = Literal["Pod", "Deployment", "InferenceService", "DaemonSet", "InitContainer"]


class MountedFile(Report):
    """A file or link that a pod would see."""

    path: str = Field(description="below the mount path")
    size: int = Field(description="bytes")
    sha256: str | None = Field(None, description="where it is listed, or was read")
    link: str | None = Field(None, description="target, if it is a symbolic link")


class UnreadLayer(Report):
    """A layer whose files are not in the tree."""

    digest: Digest
    size: int = Field(description="bytes")
    reason: str


class Prediction(Report):
    """What one runtime does with an artifact."""

    runtime: Literal["containerd", "cri-o"]
    version: str = Field(description="name and version, for people")
    image_volumes: bool = Field(description="whether this version mounts image volumes in pods at all")
    platform: str
    verdict: Verdict = Field(description="mounts: the model; empty: an empty folder; wrong: something else; refused")
    reason: str = Field(description="why, in one sentence")
    repair: str | None = Field(None, description="the command that repairs it")
    manifest: Digest | None = Field(description="the manifest that the runtime chooses")
    mounted_as: Literal["image", "artifact"] | None
    files: list[MountedFile]
    unread: list[UnreadLayer] = Field(description="layers whose files are not known")
    complete: bool | None = Field(description="whether every listed file is there; null where nothing lists them")
    missing: list[str] = Field(description="listed files that are not there, or not in their size")
    conflicts: list[str] = Field(description="paths that two layers write, with different bytes")
    hazards: list[str]

    @property
    def ok(self) -> bool:
        """Whether a pod would see the model."""
        return self.verdict == "mounts" and self.image_volumes


class Companion(Report):
    """The mountable image of an artifact."""

    reference: str = Field(description="pinned: what a pod has to name")
    tag: str | None = Field(description="the tag that leads to it, if it is the usual one")
    platforms: list[str]
    runtimes: list[Prediction]


class VolumeCheckReport(Report):
    """Result of `volume check`."""

    subject: str = Field(description="the pinned reference")
    kind: str = Field(description="what it is, for people")
    ok: bool = Field(description="whether a pod that names it would see the model, with every runtime asked for")
    runtimes: list[Prediction]
    companion: Companion | None
    warnings: list[str]


class VolumeManifestReport(Report):
    """Result of `volume manifest`."""

    subject: str = Field(description="the artifact, pinned")
    image: str = Field(description="what the pods name, pinned")
    kind: Kind
    documents: list[dict[str, Any]]
    yaml: str = Field(description="the documents with comments")
    notes: list[str] = Field(description="what the cluster has to have")
