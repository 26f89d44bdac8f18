# SPDX-License-Identifier: Apache-2.0
"""The only code that moves blobs: the copy engine, its sessions, and the reading of what is stored."""

from .cache import DigestCache
from .progress import Progress, Task, reported
from .publish import LayerAction, Published, publish
from .restore import open_verified, restore, write_model
from .workers import Workers

__all__ = [
    "DigestCache",
    "LayerAction",
    "Progress",
    "Published",
    "Task",
    "Workers",
    "open_verified",
    "publish",
    "reported",
    "restore",
    "write_model",
]
