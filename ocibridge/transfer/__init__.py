# SPDX-License-Identifier: Apache-2.0
"""The only code that moves a graph of blobs: concurrency, skip, mount, progress."""

from .progress import Progress, Task, reported
from .push import LayerAction, Published, publish
from .restore import restore
from .workers import Workers

__all__ = ["LayerAction", "Progress", "Published", "Task", "Workers", "publish", "reported", "restore"]
