# SPDX-License-Identifier: Apache-2.0
"""An artifact that is not stored yet: its layers, and how to build its manifest once their digests are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..oci import Descriptor
from .layer import Layer, LayerDigests, StoredLayer


@dataclass(frozen=True)
class BuiltManifest:
    """A manifest or index with all that it names, except the bytes of the layers.

    Attributes:
        manifest: Manifest or index, byte for byte.
        media_type: Its media type.
        config: Config object, byte for byte; empty where there is none, as in an index.
        config_descriptor: Its descriptor.
        layers: Descriptors of the layers, in the order of `ManifestPlan.layers`.
        subject: The manifest that it refers to.
        children: The manifests that an index lists.
    """

    manifest: bytes
    media_type: str
    config: bytes
    config_descriptor: Descriptor | None
    layers: tuple[Descriptor, ...]
    subject: Descriptor | None = None
    children: tuple[BuiltManifest, ...] = ()

    @property
    def descriptor(self) -> Descriptor:
        """Its descriptor."""
        return Descriptor.of(self.manifest, self.media_type)


class ManifestPlan(NamedTuple):
    """An artifact whose layers need not have been read.

    Attributes:
        layers: Its layers; some may be stored already.
        build: Builds the manifest of the digests of those layers that are not stored, in their order.
    """

    layers: tuple[Layer | StoredLayer, ...]
    build: Callable[[Sequence[LayerDigests]], BuiltManifest]
