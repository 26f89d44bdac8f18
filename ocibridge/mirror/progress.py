# SPDX-License-Identifier: Apache-2.0
"""Progress of many copies at once: tags are counted, and of the blobs only what moves."""

from __future__ import annotations

from ..transfer import Progress, Task


class Within(Progress):
    """What a single copy is given: its blobs are reported, its plan is not, as it is one of many.

    Args:
        whole: The progress of the run.
    """

    def __init__(self, whole: Progress) -> None:
        self._whole = whole

    def start(self, task: Task) -> None:
        """See `Progress`."""
        self._whole.start(task)

    def advance(self, task: Task, count: int) -> None:
        """See `Progress`."""
        self._whole.advance(task, count)

    def finish(self, task: Task, outcome: str) -> None:
        """See `Progress`."""
        self._whole.finish(task, outcome)
