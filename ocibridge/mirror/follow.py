# SPDX-License-Identifier: Apache-2.0
"""Running a job again and again, each entry when it is due."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from ..errors import OcibridgeError, UsageError
from .jobs.schedule import next_run

if TYPE_CHECKING:
    from .jobs.entry import SyncEntry
    from .jobs.job import Job

_NAP = 60.0
"""Seconds after which the clock is looked at again: it may have been set meanwhile."""


def now() -> datetime:
    """This moment, in the time zone of this machine."""
    return datetime.now().astimezone()


def follow(
    job: Job,
    once: Callable[[frozenset[int]], object],
    say: Callable[[str], None],
    clock: Callable[[], datetime] = now,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Run entries when they are due, until the process is ended. A run that fails is no reason to stop.

    Args:
        job: The job.
        once: Runs the entries of these numbers.
        say: Called with a sentence about each wait and each failure.
        clock: The time, with its zone.
        sleep: Waits for so many seconds.

    Raises:
        UsageError: no entry says when it is due.
    """
    waiting = {entry.number: moment for entry in job.entries if (moment := _next(entry, clock())) is not None}
    if not waiting:
        raise UsageError(
            f"no entry of {job.path} says when it is due",
            hint="give it an interval or a schedule, or leave out --follow",
        )
    # What has an interval is due at once; a cron line means its times and no others.
    ready = frozenset(number for number in waiting if job.entries[number].sync.interval is not None)
    while True:
        if ready:
            try:
                once(ready)
            except OcibridgeError as exc:
                say(f"the run failed: {exc.message}")
            for number in ready:
                moment = _next(job.entries[number], clock())
                if moment is None:
                    waiting.pop(number)
                else:
                    waiting[number] = moment
        if not waiting:
            return
        first = min(waiting.values())
        say(f"the next run is due at {first.isoformat(timespec='seconds')}")
        while (left := (first - clock()).total_seconds()) > 0:
            sleep(min(left, _NAP))
        ready = frozenset(number for number, moment in waiting.items() if moment <= clock())


def _next(entry: SyncEntry, after: datetime) -> datetime | None:
    return next_run(after, interval=entry.sync.interval, schedule=entry.sync.schedule)
