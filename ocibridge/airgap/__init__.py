# SPDX-License-Identifier: Apache-2.0
"""Air-gapped transfer: pack many references into one archive, and restore them on the other side."""

from .pack import pack
from .reports import PackReport, UnpackReport
from .unpack import unpack

__all__ = ["PackReport", "UnpackReport", "pack", "unpack"]
