# SPDX-License-Identifier: Apache-2.0
"""Work on many blobs at once that stops as one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

from ..model import ByteCount
from .progress import Progress, Task

Item = TypeVar("Item")
Result = TypeVar("Result")


class Cancelled(BaseException):
    """Raised inside a worker whose work is no longer wanted; no error of its own, so nothing may catch and retry it."""


class Workers:
    """Threads that share one stop signal.

    Args:
        concurrency: Tasks that may run at once, 1 or more.
        progress: Told what happens.
    """

    def __init__(self, concurrency: int, progress: Progress) -> None:
        self.concurrency = max(1, concurrency)
        self.progress = progress
        self._stop = threading.Event()

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """`work` on every item, in the order of the items; the first error stops all of them and is raised."""
        with ThreadPoolExecutor(self.concurrency, thread_name_prefix="ocibridge") as pool:
            futures = [pool.submit(self._unless_stopped, work, item) for item in items]
            try:
                done, _ = wait(futures, return_when=FIRST_EXCEPTION)
                for future in futures:
                    if future in done:
                        future.result()
            except BaseException:
                self._stop.set()
                pool.shutdown(wait=True, cancel_futures=True)
                raise
            return [future.result() for future in futures]

    def _unless_stopped(self, work: Callable[[Item], Result], item: Item) -> Result:
        if self._stop.is_set():
            raise Cancelled
        return work(item)

    def watch(self, task: Task) -> ByteCount:
        """A byte counter for `task` that also carries the stop signal into it."""

        def advance(count: int) -> None:
            if self._stop.is_set():
                raise Cancelled
            self.progress.advance(task, count)

        return advance
