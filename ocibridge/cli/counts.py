# SPDX-License-Identifier: Apache-2.0
"""Counters of a transfer, which the workers only increment, so that progress display costs nothing."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from ..transfer import Progress, Task

_WINDOW = 8.0
"""Seconds over which the rate is taken."""


class Running(NamedTuple):
    """A task that runs.

    Attributes:
        task: The task.
        done: Its bytes that are done, with those of its parts.
        size: Its bytes, as far as they are known; 0 where they are not.
    """

    task: Task
    done: int
    size: int


class Snapshot(NamedTuple):
    """State of a phase.

    Attributes:
        phase: See `Task`.
        tasks: Tasks of the phase.
        finished: Those that are finished.
        size: Bytes of the phase; 0 where nobody knows how many there will be.
        done: Bytes that are where they belong, whether they moved or not; where `size` is 0, those that have moved.
        rate: Bytes a second that move at present.
        running: The tasks that run, the oldest first; parts after their whole.
    """

    phase: str
    tasks: int
    finished: int
    size: int
    done: int
    rate: float
    running: tuple[Running, ...]

    @property
    def seconds_left(self) -> float | None:
        """Time that the rest takes at this rate; None where nobody can know."""
        return (self.size - self.done) / self.rate if self.rate >= 1 and self.size > self.done else None


@dataclass(slots=True)
class _Entry:
    task: Task
    done: int = 0
    expected: int | None = None


class Counts(Progress):
    """Counts what the workers report, and forwards the rare events.

    Args:
        clock: Seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._running: dict[int, _Entry] = {}
        self._marks: deque[tuple[float, int]] = deque()
        self._begin("", 0, 0)

    def _begin(self, phase: str, tasks: int, size: int) -> None:
        self._phase, self._tasks, self._size = phase, tasks, size
        self._finished = self._done = self._moved = 0
        # Of a phase whose size is not known from the start: how many tasks know what they expect, and how much.
        self._known = self._expected = 0
        self._marks.clear()
        self._marks.append((self._clock(), 0))

    def plan(self, phase: str, tasks: int, size: int) -> None:
        """See `Progress`."""
        with self._lock:
            self._begin(phase, tasks, size)

    def start(self, task: Task) -> None:
        """See `Progress`."""
        with self._lock:
            self._running[id(task)] = _Entry(task)

    def expect(self, task: Task, size: int) -> None:
        """See `Progress`."""
        with self._lock:
            if entry := self._running.get(id(task)):
                self._known += entry.expected is None
                entry.expected = (entry.expected or 0) + size
                self._expected += size

    def advance(self, task: Task, count: int) -> None:
        """See `Progress`."""
        with self._lock:
            self._moved += count
            self._credit(task, count)

    def finish(self, task: Task, outcome: str) -> None:
        """See `Progress`."""
        with self._lock:
            entry = self._running.get(id(task)) or _Entry(task)
            if task.size:
                # What was skipped is done, too; and what was hashed may have been more than the file.
                counts = task.planned and outcome != "failed"
                self._credit(task, (task.size if counts else 0) - entry.done)
            self._running.pop(id(task), None)
            if task.phase == self._phase:
                # The blobs of many copies come and go within a phase that counts copies.
                self._finished += 1
                self._known += entry.expected is None

    def _credit(self, task: Task, count: int) -> None:
        self._done += count
        for each in (task, task.part_of):
            if each is not None and (entry := self._running.get(id(each))):
                entry.done += count

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
            size = self._size or (self._expected if self._known >= self._tasks else 0)
            done = min(max(0, self._done), size) if size else max(0, self._moved)
            return Snapshot(self._phase, self._tasks, self._finished, size, done, max(0.0, rate), self._in_order())

    def _in_order(self) -> tuple[Running, ...]:
        groups: dict[int, list[Running]] = {}
        for entry in self._running.values():
            each = Running(entry.task, max(0, entry.done), entry.task.size or entry.expected or 0)
            groups.setdefault(id(entry.task.part_of or entry.task), []).append(each)
        return tuple(each for group in groups.values() for each in group)

    def note(self, text: str) -> None:
        """Something that whoever waits should know, such as a host that is silent."""

    def close(self) -> None:
        """The transfer is over, well or not."""
