# SPDX-License-Identifier: Apache-2.0
"""The event interface of long work. The library reports here and never prints."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple


class Task(NamedTuple):
    """One layer on its way.

    Attributes:
        phase: `hashing`, `uploading`, `downloading` or `verifying`.
        label: What it is called, such as the path of a weight.
        size: Bytes that will move.
    """

    phase: str
    label: str
    size: int


class Progress:
    """Watches a transfer; this one ignores everything. Methods are called from several threads at once.

    Example:
        >>> class Bytes(Progress):
        ...     total = 0
        ...     def advance(self, task: Task, count: int) -> None:
        ...         self.total += count
    """

    def plan(self, phase: str, tasks: int, size: int) -> None:
        """A phase of `tasks` tasks and `size` bytes begins."""

    def start(self, task: Task) -> None:
        """Work on a task begins."""

    def advance(self, task: Task, count: int) -> None:
        """`count` more bytes have moved; negative where bytes have to be sent again."""

    def finish(self, task: Task, outcome: str) -> None:
        """A task ended: `done`, `skipped`, `mounted` or `failed`."""


class Within(Progress):
    """Progress of one copy of many: its blobs are reported, its plan is not.

    Args:
        whole: The progress of the run.
    """

    def __init__(self, whole: Progress) -> None:
        self._whole = whole

    def start(self, task: Task) -> None:
        """See `Progress`."""
        self._whole.start(task)

    def advance(self, task: Task, count: int) -> None:
        """Report more bytes of a task to the whole run; see `Progress.advance`."""
        self._whole.advance(task, count)

    def finish(self, task: Task, outcome: str) -> None:
        """See `Progress`."""
        self._whole.finish(task, outcome)


@contextmanager
def reported(progress: Progress, task: Task) -> Iterator[None]:
    """Start and finish a task around the block."""
    progress.start(task)
    outcome = "failed"
    try:
        yield
        outcome = "done"
    finally:
        progress.finish(task, outcome)
