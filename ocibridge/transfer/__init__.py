# SPDX-License-Identifier: Apache-2.0
"""The only code that moves a graph of blobs: concurrency, skip, mount, progress."""

from .cache import DigestCache
from .digests import describe_all
from .progress import Progress, Task, reported
from .push import LayerAction, Published, publish, publish_sealed
from .refill import refill
from .restore import restore
from .uploads import LayerBytes
from .workers import Workers

__all__ = [
    "DigestCache",
    "LayerAction",
    "LayerBytes",
    "Progress",
    "Published",
    "Task",
    "Workers",
    "describe_all",
    "publish",
    "publish_sealed",
    "refill",
    "reported",
    "restore",
]
