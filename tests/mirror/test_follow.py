# SPDX-License-Identifier: Apache-2.0
"""Entries run when they are due; the clock of these tests is set by their own sleep."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from ocibridge.errors import StoreError, UsageError
from ocibridge.mirror.follow import follow
from ocibridge.mirror.jobs.job import Job

from .artifacts import job

START = datetime(2026, 1, 31, 12, 0, tzinfo=timezone.utc)


class Clock:
    def __init__(self, until: timedelta) -> None:
        self.now = START
        self._end = START + until

    def __call__(self) -> datetime:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        if self.now > self._end:
            raise KeyboardInterrupt


def loaded(tmp_path: Path, *extra: str) -> Job:
    entries = "\n".join(
        f"          - {{source: localhost:1/a{number}, target: localhost:2/a{number}, type: repository{each}}}"
        for number, each in enumerate(extra)
    )
    return Job.load(job(tmp_path / "job.yaml", f"          version: 1\n          sync:\n{entries}"))


def test_each_entry_has_its_time(tmp_path: Path) -> None:
    found = loaded(tmp_path, ", interval: 6h", ", schedule: '30 13 * * *'", "")
    clock = Clock(timedelta(hours=26))
    runs: list[tuple[timedelta, list[int]]] = []
    said: list[str] = []

    def once(entries: frozenset[int]) -> None:
        runs.append((clock.now - START, sorted(entries)))

    with pytest.raises(KeyboardInterrupt):
        follow(found, once, said.append, clock, clock.sleep)
    hours = [(round(after.total_seconds() / 3600, 2), entries) for after, entries in runs]
    assert hours == [(0, [0]), (1.5, [1]), (6, [0]), (12, [0]), (18, [0]), (24, [0]), (25.5, [1])]
    assert said[0] == "the next run is due at 2026-01-31T13:30:00+00:00"


def test_a_run_that_fails_is_tried_at_the_next_time(tmp_path: Path) -> None:
    found = loaded(tmp_path, ", interval: 1h")
    clock = Clock(timedelta(minutes=90))
    said: list[str] = []

    def once(_: frozenset[int]) -> None:
        raise StoreError("the registry is away")

    with pytest.raises(KeyboardInterrupt):
        follow(found, once, said.append, clock, clock.sleep)
    assert said.count("the run failed: the registry is away") == 2


def test_a_job_without_times_is_not_followed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="says when it is due"):
        follow(loaded(tmp_path, ""), lambda _: None, lambda _: None)
