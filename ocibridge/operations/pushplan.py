# SPDX-License-Identifier: Apache-2.0
"""The plan of a push (`push --dry-run`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from ..layers import Layer, LayerDigests, ManifestPlan
from ..model import Model
from ..oci.manifest import ANNOTATION_TITLE
from ..report import JsonReport, Report, schema_named
from .reports import FileReport, file_report


class PlannedLayer(Report):
    """One layer that a push would make."""

    title: str = Field(description="name of the blob")
    media_type: str
    size: int = Field(description="bytes before compression")
    file_count: int


class LeftOut(Report):
    """A file or folder that is no part of the model."""

    path: str
    reason: str


class PlannedCompanion(Report):
    """A companion that a push would publish."""

    kind: str = Field(description="image, or the name of the format whose manifest it is")
    tags: list[str]


class PushPlan(JsonReport):
    """Result of `push --dry-run`: what would be published."""

    schema_id: str = schema_named("push-plan")
    source: str = Field(description="path, or name, of what was read")
    target: str = Field(description="reference of what would be written, with its tag")
    tags: list[str]
    identity: str | None = Field(description="what a round trip keeps, such as carton:<manifest hash>")
    format: str = Field(description="format of the source")
    files: list[FileReport]
    layers: list[PlannedLayer]
    left_out: list[LeftOut] = Field(description="what of a folder is no part of the model")
    also: list[PlannedCompanion]
    warnings: list[str]


def push_plan(
    source: str, target: str, model: Model, plan: ManifestPlan, tags: Sequence[str], also: Mapping[str, list[str]]
) -> PushPlan:
    """A plan as a report.

    Args:
        source: What is read.
        target: Where it goes.
        model: The model.
        plan: The plan of its manifest; all layers are made of its files.
        tags: The tags.
        also: Tags of companions, by kind.
    """
    layers = [each for each in plan.layers if isinstance(each, Layer)]
    unknown = f"sha256:{'0' * 64}"
    built = plan.build([LayerDigests(unknown, each.plain.size, unknown, ()) for each in layers])
    return PushPlan(
        source=source,
        target=target,
        tags=list(tags),
        identity=model.identity,
        format=model.format,
        files=[file_report(each) for each in model.files],
        layers=[
            PlannedLayer(
                title=(descriptor.annotations or {})[ANNOTATION_TITLE],
                media_type=descriptor.media_type,
                size=descriptor.size,
                file_count=len(layer.files),
            )
            for layer, descriptor in zip(layers, built.layers, strict=True)
        ],
        left_out=[LeftOut(path=path, reason=reason) for path, reason in sorted(model.left_out.items())],
        also=[PlannedCompanion(kind=kind, tags=each) for kind, each in also.items()],
        warnings=list(model.warnings),
    )
