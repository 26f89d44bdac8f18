# SPDX-License-Identifier: Apache-2.0
"""Executors of a run: any `concurrent.futures.Executor`, and those with a name."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TypeVar

from ..errors import NetworkError, UsageError

WORKERS = 16
"""Tags that are looked at or worked on at the same time unless somebody says otherwise. A registry that has several
requests to serve needs less of its processor for each; beyond this many, little is won."""
EXECUTORS = ("threads", "processes", "dask")
_AHEAD = 4
"""Tasks per worker that are handed out at once: enough that none waits, few enough that an end comes soon."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def workers_by_default(kind: str) -> int:
    """Return the default number of workers of an executor: each process takes memory."""
    return min(WORKERS, os.cpu_count() or 1) if kind == "processes" else WORKERS


@contextmanager
def executor_of(kind: str, workers: int, scheduler: str | None = None) -> Iterator[Executor]:
    """The executor of this name, ended with the block.

    Args:
        kind: One of `EXECUTORS`.
        workers: Threads or processes; a Dask cluster has as many as it has.
        scheduler: Address of a Dask scheduler, such as `tcp://10.0.0.1:8786`.

    Raises:
        UsageError: there is no such executor, or its package is not installed.
        NetworkError: the scheduler cannot be reached.
    """
    if kind not in EXECUTORS:
        raise UsageError(f"{kind!r} is no executor", hint=f"give one of: {', '.join(EXECUTORS)}")
    if (kind == "dask") != (scheduler is not None):
        raise UsageError("a scheduler belongs to the executor dask, and dask needs one", hint="give both, or neither")
    if kind == "dask":
        assert scheduler is not None
        with _dask(scheduler) as cluster:
            yield cluster
        return
    if kind == "processes":
        yield from _processes(workers)
        return
    pool = ThreadPoolExecutor(workers, thread_name_prefix="ocibridge-mirror")
    try:
        yield pool
    finally:
        # After an error whoever uses the executor has woken its threads: they end soon, and say nothing afterwards.
        pool.shutdown(cancel_futures=True)


def _processes(workers: int) -> Iterator[Executor]:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    others = set(multiprocessing.active_children())
    # Not by fork: the threads of this process, and their locks, would be copied in whatever state they are. Ctrl-C
    # reaches the children, too, each of which would have something to say.
    pool = ProcessPoolExecutor(
        workers, multiprocessing.get_context("spawn"), signal.signal, (signal.SIGINT, signal.SIG_IGN)
    )
    try:
        yield pool
    except BaseException:
        # The end of this process would wait for theirs, which may be hours away.
        for child in set(multiprocessing.active_children()) - others:
            child.terminate()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


@contextmanager
def _dask(scheduler: str) -> Iterator[Executor]:
    try:
        from distributed import Client
    except ImportError:
        raise UsageError(
            "the executor dask needs the package distributed", hint="pip install 'ocibridge[dask]'"
        ) from None
    try:
        client = Client(scheduler, timeout=10, set_as_default=False)
    except (OSError, ValueError) as exc:
        raise NetworkError(
            f"the Dask scheduler {scheduler} cannot be reached", hint="check the address, and that it is running"
        ) from exc
    with client:
        # Each unit says for itself whether it failed, and a worker that dies is replaced: its units are done again.
        yield client.get_executor(pure=False, retries=3)


def each_done(
    executor: Executor, work: Callable[[Item], Result], items: Iterable[Item], workers: int
) -> Generator[tuple[Item, Future[Result]], None, None]:
    """Hand out items, and give them back as they are done, whatever the order.

    Args:
        executor: Where the work is done.
        work: What is done; for other processes it has to be importable there.
        items: Taken as they are needed.
        workers: How many work at once.
    """
    waiting: dict[Future[Result], Item] = {}
    done: SimpleQueue[Future[Result]] = SimpleQueue()
    left = iter(items)
    try:
        while True:
            for item in left:
                future = _submitted(executor, work, item)
                waiting[future] = item
                future.add_done_callback(done.put)
                if len(waiting) >= workers * _AHEAD:
                    break
            if not waiting:
                return
            future = done.get()
            yield waiting.pop(future), future
    finally:
        for future in waiting:
            future.cancel()


def _submitted(executor: Executor, work: Callable[[Item], Result], item: Item) -> Future[Result]:
    """Submit an item; if the workers of the executor have died, only this item fails."""
    try:
        return executor.submit(work, item)
    except BrokenExecutor as exc:
        failed: Future[Result] = Future()
        failed.set_exception(exc)
        return failed
