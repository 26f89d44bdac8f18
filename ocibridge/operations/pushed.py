# SPDX-License-Identifier: Apache-2.0
"""What `push` returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from ..oci import Digest
from .base import Report

if TYPE_CHECKING:
    from ..transfer import LayerAction, Published


class PushedLayer(Report):
    """One layer of a push."""

    digest: Digest
    size: int = Field(description="bytes")
    media_type: str
    action: Literal["uploaded", "skipped", "mounted"]


class AlsoReport(Report):
    """A published companion."""

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


_ACTIONS: dict[str, Literal["uploaded", "skipped", "mounted"]] = {
    "copied": "uploaded",
    "present": "skipped",
    "mounted": "mounted",
}


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
            action=_ACTIONS[each.action],
        )
        for each in layers
    ]
