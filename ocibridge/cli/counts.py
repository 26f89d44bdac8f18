# SPDX-License-Identifier: Apache-2.0
"""Counters of a transfer, which the workers only increment, so that progress display costs nothing."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from ..transfer import Progress, Task

_WINDOW = 8.0
"""Seconds over which the rate is taken."""


class Snapshot(NamedTuple):
    """State of a phase.

    Attributes:
        phase: See `Task`.
        tasks: Tasks of the phase.
        finished: Those that are finished.
        size: Bytes of the phase; 0 where nobody knows how many there will be.
        done: Bytes that are where they belong, whether they moved or not; where `size` is 0, those that have moved.
        rate: Bytes a second that move at present.
        running: The tasks that run, with their bytes, the oldest first.
    """

    phase: str
    tasks: int
    finished: int
    size: int
    done: int
    rate: float
    running: tuple[tuple[Task, int], ...]

    @property
    def seconds_left(self) -> float | None:
        """Time that the rest takes at this rate; None where nobody can know."""
        return (self.size - self.done) / self.rate if self.rate >= 1 and self.size > self.done else None


class Counts(Progress):
    """Counts what the workers report, and forwards the rare events.

    Args:
        clock: Seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._running: dict[int, list[Any]] = {}
        self._marks: deque[tuple[float, int]] = deque()
        self._begin("", 0, 0)

    def _begin(self, phase: str, tasks: int, size: int) -> None:
        self._phase, self._tasks, self._size = phase, tasks, size
        self._finished = self._done = self._moved = 0
        self._marks.clear()
        self._marks.append((self._clock(), 0))

    def plan(self, phase: str, tasks: int, size: int) -> None:
        """See `Progress`."""
        with self._lock:
            self._begin(phase, tasks, size)

    def start(self, task: Task) -> None:
        """See `Progress`."""
        with self._lock:
            self._running[id(task)] = [task, 0]

    def advance(self, task: Task, count: int) -> None:
        """See `Progress`."""
        with self._lock:
            if entry := self._running.get(id(task)):
                entry[1] += count
            self._done += count
            self._moved += count

    def finish(self, task: Task, outcome: str) -> None:
        """See `Progress`."""
        with self._lock:
            _, counted = self._running.pop(id(task), (task, 0))
            # The blobs of many copies come and go within a phase that counts copies.
            self._finished += task.phase == self._phase
            # What was skipped is done, too; and what was hashed may have been more than the file.
            self._done += (0 if outcome == "failed" else task.size) - counted

    def snapshot(self) -> Snapshot:
        """The state at this moment."""
        with self._lock:
            now = self._clock()
            while len(self._marks) > 1 and now - self._marks[0][0] > _WINDOW:
                self._marks.popleft()
            since, moved = self._marks[0]
            rate = (self._moved - moved) / (now - since) if now > since else 0.0
            if now - self._marks[-1][0] >= _WINDOW / 32:
                self._marks.append((now, self._moved))
            running = tuple((task, max(0, count)) for task, count in self._running.values())
            done = min(max(0, self._done), self._size) if self._size else max(0, self._moved)
            return Snapshot(self._phase, self._tasks, self._finished, self._size, done, max(0.0, rate), running)

    def note(self, text: str) -> None:
        """Something that whoever waits should know, such as a host that is silent."""

    def close(self) -> None:
        """The transfer is over, well or not."""
