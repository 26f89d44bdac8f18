# SPDX-License-Identifier: Apache-2.0
"""The only code that moves a graph of blobs: concurrency, skip, mount, progress."""

from .progress import Progress, Task, reported
from .push import LayerAction, LayerBytes, Published, describe_all, publish, publish_sealed
from .refill import refill
from .restore import restore
from .workers import Workers

__all__ = [
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
