# SPDX-License-Identifier: Apache-2.0
"""Work on many blobs at once that stops as one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import TypeVar

from ..io.readers import ByteCount
from ..stores.base import Store
from .progress import Progress, Task

Item = TypeVar("Item")
Result = TypeVar("Result")


GRACE = 2.0
"""Seconds that the other tasks have to end by themselves after one has failed."""


class Cancelled(BaseException):
    """Raised inside a worker whose work is no longer wanted; no error of its own, so nothing may catch and retry it."""


class Workers:
    """Threads that share one stop signal.

    Args:
        concurrency: Tasks that may run at once, 1 or more.
        progress: Receives progress events.
        stores: Stores that the tasks wait for, to be interrupted where a task does not stop soon.
    """

    def __init__(self, concurrency: int, progress: Progress, stores: Sequence[Store] = ()) -> None:
        self.concurrency = max(1, concurrency)
        self.progress = progress
        self._stores = stores
        self._stop = threading.Event()

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """`work` on every item, in the order of the items; an error stops all of them and is raised."""
        if self.concurrency == 1:  # as in a run of very many small copies, which each would start a thread
            return [work(item) for item in items]
        # A future for each of very many small files would take longer, and more memory, than reading them.
        left, lock = iter(enumerate(items)), threading.Lock()
        results: dict[int, Result] = {}

        def run() -> None:
            while True:
                with lock:
                    entry = next(left, None)
                if entry is None:
                    return
                if self._stop.is_set():
                    raise Cancelled
                results[entry[0]] = work(entry[1])

        with ThreadPoolExecutor(self.concurrency, thread_name_prefix="ocibridge") as pool:
            running: list[Future[None]] = []
            try:
                running += [pool.submit(run) for _ in range(min(self.concurrency, len(items)))]
                for future in wait(running, return_when=FIRST_EXCEPTION).done:
                    future.result()
            except BaseException as exc:
                self._stop.set()
                pool.shutdown(wait=False, cancel_futures=True)
                # Tasks end at their next byte; those to which none comes are woken, at once if a person waits.
                begun = [future for future in running if not future.cancelled()]
                if not isinstance(exc, Exception) or wait(begun, timeout=GRACE).not_done:
                    for store in self._stores:
                        store.interrupt()
                raise
        return [results[number] for number in range(len(items))]

    def watch(self, task: Task) -> ByteCount:
        """A byte counter for `task` that also passes on the stop signal."""

        def advance(count: int) -> None:
            if self._stop.is_set():
                raise Cancelled
            self.progress.advance(task, count)

        return advance
