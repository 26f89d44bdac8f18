# SPDX-License-Identifier: Apache-2.0
"""Ways to pack a model; apart from what does it, whose import would take longer than printing a help text."""

from __future__ import annotations

from enum import Enum


class Layers(str, Enum):
    """Choices of `--layers`."""

    TAR = "tar"
    RAW = "raw"
    RAW_FILES = "raw-files"


class Compress(str, Enum):
    """Choices of `--compress`."""

    NONE = "none"
    GZIP = "gzip"
    ZSTD = "zstd"
