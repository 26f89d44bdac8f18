# SPDX-License-Identifier: Apache-2.0
"""Across an air gap: many references in one archive, restored on the other side."""

from .pack import pack
from .reports import PackReport, UnpackReport
from .unpack import unpack

__all__ = ["PackReport", "UnpackReport", "pack", "unpack"]
