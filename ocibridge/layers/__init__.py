# SPDX-License-Identifier: Apache-2.0
"""Layer encodings: raw, tar, tar+gzip, tar+zstd; both directions, streaming, deterministic. No roles here."""

from .encoding import Encoding
from .layer import Layer, LayerDigests, StoredLayer, UnpackedFile, unpack, without_prefix
from .plan import BuiltManifest, ManifestPlan
from .stream import LayerStream, describe, promised
from .tar import TarEntry, read_tar, tar_parts

__all__ = [
    "BuiltManifest",
    "Encoding",
    "Layer",
    "LayerDigests",
    "LayerStream",
    "ManifestPlan",
    "StoredLayer",
    "TarEntry",
    "UnpackedFile",
    "describe",
    "promised",
    "read_tar",
    "tar_parts",
    "unpack",
    "without_prefix",
]
