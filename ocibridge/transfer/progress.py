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
        size: Bytes that will move; 0 where nobody knows yet, see `Progress.expect`.
        part_of: The task that its bytes belong to, such as the tag of a blob.
        planned: Whether its bytes are in those of the plan; they are not where another copy of the run brings them.
    """

    phase: str
    label: str
    size: int
    part_of: Task | None = None
    planned: bool = True


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

    def expect(self, task: Task, size: int) -> None:
        """`size` more bytes belong to a task than was known when it began."""

    def advance(self, task: Task, count: int) -> None:
        """`count` more bytes have moved; negative where bytes have to be sent again."""

    def finish(self, task: Task, outcome: str) -> None:
        """A task ended: `done`, `skipped`, `mounted` or `failed`."""


class Within(Progress):
    """Progress of one copy of many: its blobs are parts of its task, and what it plans is the size of that.

    Args:
        whole: The progress of the run.
        task: The copy.
    """

    def __init__(self, whole: Progress, task: Task) -> None:
        self._whole = whole
        self._task = task
        self._parts: dict[int, Task] = {}

    def plan(self, phase: str, tasks: int, size: int) -> None:
        """See `Progress`."""
        self._whole.expect(self._task, size)

    def start(self, task: Task) -> None:
        """See `Progress`."""
        self._parts[id(task)] = task._replace(part_of=self._task)
        self._whole.start(self._parts[id(task)])

    def advance(self, task: Task, count: int) -> None:
        """Report more bytes of a task to the whole run; see `Progress.advance`."""
        self._whole.advance(self._parts.get(id(task), task), count)

    def finish(self, task: Task, outcome: str) -> None:
        """See `Progress`."""
        self._whole.finish(self._parts.pop(id(task), task._replace(part_of=self._task)), outcome)


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
