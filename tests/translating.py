# SPDX-License-Identifier: Apache-2.0
"""`convert` to an artifact."""

from __future__ import annotations

import os
from typing import Any

import ocibridge


def translate(
    source: str | os.PathLike[str], target: str, options: ocibridge.ConvertOptions, **more: Any
) -> ocibridge.ConvertReport:
    """What `convert` reports, as the type that it is for a target in a store."""
    report = ocibridge.convert(source, target, options, **more)
    assert isinstance(report, ocibridge.ConvertReport)
    return report
