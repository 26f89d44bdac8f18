# SPDX-License-Identifier: Apache-2.0
"""When an entry of a job is due: every so often (`interval`), or at the times of a cron line (`schedule`)."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

from ...paths import show

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)"
_DURATION = re.compile(f"(?:{_PART})+", re.ASCII)
LONGEST = timedelta(days=366)
"""The longest duration that is accepted."""

_NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
MAX_CRON = 256
"""Characters of a cron line."""


def parse_duration(text: str) -> timedelta:
    """A duration as Go's `time.ParseDuration` reads it, without a sign.

    Example:
        >>> parse_duration("1h30m")
        datetime.timedelta(seconds=5400)

    Raises:
        ValueError: it is none, or longer than `LONGEST`.
    """
    if len(text) > 40 or not _DURATION.fullmatch(text):
        raise ValueError(f"{show(text)} is no duration; write for example 90s, 15m or 1h30m")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in re.findall(_PART, text, re.ASCII))
    if seconds > LONGEST.total_seconds():
        raise ValueError(f"{show(text)} is longer than {LONGEST.days} days; give a shorter duration")
    return timedelta(seconds=seconds)


def parse_cron(text: str) -> str:
    """A cron line of five fields, checked; `@daily` and the like are written out.

    Example:
        >>> parse_cron("@hourly")
        '0 * * * *'

    Raises:
        ValueError: it is none, or no time ever fits it.
    """
    line = _NAMED.get(text.strip(), text.strip())
    if line.startswith("@every"):
        raise ValueError("'@every' is no cron line; write it as an interval, such as interval: 1h")
    if len(line) > MAX_CRON or len(line.split()) != 5:
        raise ValueError(
            f"{show(text)} is no cron line of five fields; "
            "write minute, hour, day of month, month and day of week, such as '15 3 * * *'"
        )
    from cronsim import CronSimError

    try:
        found = _next(line, datetime(2024, 1, 1))
    except CronSimError as exc:
        what = str(exc).removeprefix("Bad ")
        raise ValueError(f"the {what} of the cron line {show(text)} is not valid; see crontab(5)") from None
    if found is None:
        raise ValueError(f"no time ever fits the cron line {show(text)}; check its day and month")
    return line


def next_run(after: datetime, *, interval: timedelta | None = None, schedule: str | None = None) -> datetime | None:
    """The first time after `after` at which an entry is due; None for one that has neither interval nor schedule.

    Args:
        after: When it ran last. A cron line is meant in this time's zone, and what the end of summer time repeats is
            run once, as by Debian's cron.
        interval: As `parse_duration` gives it.
        schedule: As `parse_cron` gives it.

    Example:
        >>> next_run(datetime(2026, 1, 31, 12), schedule="15 3 * * *")
        datetime.datetime(2026, 2, 1, 3, 15)
    """
    if interval is not None:
        # In UTC, as the hour that summer time takes away or gives back is none of the interval.
        return (
            (after.astimezone(timezone.utc) + interval).astimezone(after.tzinfo) if after.tzinfo else after + interval
        )
    return _next(schedule, after) if schedule is not None else None


def _next(line: str, after: datetime) -> datetime | None:
    # Imported here, as few jobs have one.
    from cronsim import CronSim

    return next(CronSim(line, after), None)
