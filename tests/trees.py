# SPDX-License-Identifier: Apache-2.0
"""What is in a folder, without the record that ocibridge keeps of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ocibridge.io.marker import MARKER


def paths_in(folder: Path) -> Iterator[Path]:
    """Everything in a folder and below, in order, but for `.ocibridge`."""
    return (path for path in sorted(folder.rglob("*")) if path.name != MARKER)
