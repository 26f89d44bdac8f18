# SPDX-License-Identifier: Apache-2.0
"""An artifact that is not stored yet: its layers, and how to write its manifest once their digests are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..oci import Descriptor
from .layer import Layer, LayerDigests


class BuiltManifest(NamedTuple):
    """A manifest with all that it names, except the bytes of the layers.

    Attributes:
        manifest: Manifest, byte for byte.
        media_type: Media type of the manifest.
        config: Config object, byte for byte.
        config_descriptor: Its descriptor.
        layers: Descriptors of the layers, in the order of `ManifestPlan.layers`.
    """

    manifest: bytes
    media_type: str
    config: bytes
    config_descriptor: Descriptor
    layers: tuple[Descriptor, ...]


class ManifestPlan(NamedTuple):
    """What a dialect makes of a model: layers in manifest order; `seal` makes a manifest of their digests."""

    layers: tuple[Layer, ...]
    seal: Callable[[Sequence[LayerDigests]], BuiltManifest]
