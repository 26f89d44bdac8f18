# SPDX-License-Identifier: Apache-2.0
"""Threads that stop as one, whenever somebody interrupts."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from ocibridge.transfer import Progress, Task
from ocibridge.transfer.workers import Cancelled, Workers


def test_an_interrupt_while_tasks_are_handed_out_stops_those_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    submit = ThreadPoolExecutor.submit
    workers = Workers(2, Progress())
    submitted: list[object] = []
    started, stopped = threading.Event(), threading.Event()

    def interrupted(self: ThreadPoolExecutor, work: Any, /, *args: Any) -> Future[Any]:
        if started.wait(10 if submitted else 0):
            raise KeyboardInterrupt
        submitted.append(work)
        return submit(self, work, *args)

    def work(name: str) -> None:
        advance = workers.watch(Task("uploading", name, 1))
        started.set()
        try:
            for _ in range(2000):
                advance(0)
                threading.Event().wait(0.01)
        except Cancelled:
            stopped.set()
            raise

    monkeypatch.setattr(ThreadPoolExecutor, "submit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        workers.map(work, ["first", "second"])
    assert stopped.is_set()


def test_a_task_fails_while_others_run_and_none_begins_after_it() -> None:
    workers = Workers(2, Progress())
    begun: list[int] = []

    def work(number: int) -> int:
        begun.append(number)
        if number == 3:
            raise ValueError(number)
        return number

    with pytest.raises(ValueError, match="3"):
        workers.map(work, range(100_000))
    assert 3 in begun
    assert len(begun) < 100_000
    with pytest.raises(Cancelled):
        workers.map(work, [4])


def test_results_have_the_order_of_the_items() -> None:
    assert Workers(4, Progress()).map(lambda each: each * 2, range(1000)) == list(range(0, 2000, 2))
    assert Workers(4, Progress()).map(str, []) == []
