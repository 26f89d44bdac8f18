# SPDX-License-Identifier: Apache-2.0
"""Progress display on standard error: bars, lines or JSON.

The workers only count; a thread of its own looks at the counts now and then: watching costs the transfer nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from typing import TextIO

from ..errors import human_size
from ..transfer import Progress, Task
from ..transfer.events import Event, FinishEvent, MessageEvent, PlanEvent, ProgressEvent, StartEvent
from .counts import Counts, Snapshot
from .output import human_time, printable

_MOST_NAMES = 3
LARGE = 64 * 1024 * 1024
"""A layer of this size gets a line of its own when it is finished."""


class Lines(Counts):
    """Calls `tick` every few seconds from a thread of its own, from the first plan that has work in it.

    Args:
        out: Where lines go.
        interval: Seconds.
        clock: See `Counts`.
    """

    def __init__(self, out: TextIO, interval: float, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock)
        self._out = out
        self._interval = interval
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def plan(self, phase: str, tasks: int, size: int) -> None:
        """See `Progress`."""
        super().plan(phase, tasks, size)
        if tasks and self._thread is None:
            self._thread = threading.Thread(target=self._loop, name="ocibridge-progress", daemon=True)
            self._thread.start()

    def _loop(self) -> None:
        while not self._stop.wait(self._interval):
            self.tick()

    def tick(self) -> None:
        """Say where things stand."""

    def close(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _write(self, line: str) -> None:
        # One write per line, so that lines of several threads do not mix; nobody listening is no failure.
        with suppress(OSError, ValueError):
            self._out.write(line + "\n")
            self._out.flush()


class PlainLines(Lines):
    """A sentence every few seconds, and one for every large layer, each with its time (RFC 3339)."""

    def finish(self, task: Task, outcome: str) -> None:
        """See `Progress`."""
        super().finish(task, outcome)
        if task.size >= LARGE:
            self.note(f"{task.phase} {task.label} ({human_size(task.size)}): {outcome}")

    def note(self, text: str) -> None:
        """See `Counts`."""
        self._write(f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ} ocibridge: {printable(text)}")

    def tick(self) -> None:
        """See `Lines`."""
        now = self.snapshot()
        if now.tasks == now.finished:
            return
        left = now.seconds_left
        amount = f"{human_size(now.done)} moved"
        if now.size:
            amount = f"{human_size(now.done)} of {human_size(now.size)} ({now.done * 100 // now.size}%)"
        self.note(
            f"{now.phase}: {now.finished} of {now.tasks}, {amount}, {human_size(now.rate)}/s"
            + (f", {human_time(left)} left" if left is not None else "")
            + _names(now)
        )


class JsonLines(Lines):
    """One JSON object a line, see `ocibridge.transfer.events`."""

    def plan(self, phase: str, tasks: int, size: int) -> None:
        """See `Progress`."""
        super().plan(phase, tasks, size)
        self.event(PlanEvent(phase=phase, tasks=tasks, size=size))

    def start(self, task: Task) -> None:
        """See `Progress`."""
        super().start(task)
        self.event(StartEvent(phase=task.phase, label=task.label, size=task.size, part_of=_whole(task)))

    def finish(self, task: Task, outcome: str) -> None:
        """See `Progress`."""
        super().finish(task, outcome)
        self.event(
            FinishEvent(phase=task.phase, label=task.label, size=task.size, outcome=outcome, part_of=_whole(task))
        )

    def note(self, text: str) -> None:
        """See `Counts`."""
        self.event(MessageEvent(event="note", text=text))

    def tick(self) -> None:
        """See `Lines`."""
        now = self.snapshot()
        self.event(
            ProgressEvent(
                phase=now.phase,
                tasks=now.tasks,
                finished=now.finished,
                size=now.size,
                done=now.done,
                rate=round(now.rate),
            )
        )

    def event(self, event: Event) -> None:
        """Write an event."""
        self._write(event.line())


def _names(now: Snapshot) -> str:
    """The tags that are under way, where these are few: the last ones may take long."""
    names = [
        printable(each.task.label) + (f" ({human_size(each.done)} of {human_size(each.size)})" if each.size else "")
        for each in now.running
        if each.task.phase == now.phase and not each.task.size
    ]
    return f"; {', '.join(names)}" if 0 < len(names) <= _MOST_NAMES else ""


def _whole(task: Task) -> str | None:
    return task.part_of.label if task.part_of else None


@contextmanager
def shown(args: argparse.Namespace) -> Iterator[Progress]:
    """The progress that `--progress`, `--quiet`, `--json` and the terminal ask for, ended with the block."""
    mode = "none" if args.quiet else args.progress
    if mode == "auto":
        bars = sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        # Who reads JSON wants nothing else on standard error than the JSON of an error.
        mode = "tty" if bars else "none" if args.json else "plain"
    if mode == "none" or sys.stderr is None:
        yield Progress()
        return
    from .notes import shown_by

    progress = _watching(mode)
    with shown_by(progress.note):
        try:
            yield progress
        finally:
            progress.close()


def _watching(mode: str) -> Counts:
    if mode == "tty":
        from .bars import Bars

        return Bars()
    return JsonLines(sys.stderr, 1.0) if mode == "json" else PlainLines(sys.stderr, 5.0)
