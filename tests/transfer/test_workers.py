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
    started, stopped = threading.Event(), threading.Event()

    def interrupted(self: ThreadPoolExecutor, work: Any, /, *args: Any) -> Future[Any]:
        if args[-1] == "second":
            assert started.wait(10)
            raise KeyboardInterrupt
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
