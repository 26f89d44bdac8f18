# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from ocibridge.errors import NetworkError, UsageError
from ocibridge.mirror.executors import each_done, executor_of


def test_everything_is_done_once() -> None:
    with executor_of("threads", 3) as pool:
        found = {item: future.result() for item, future in each_done(pool, lambda each: each * each, range(100), 3)}
    assert found == {number: number * number for number in range(100)}


def test_items_are_taken_as_they_are_needed() -> None:
    taken = []
    gate = threading.Event()

    def items() -> object:
        for number in range(1000):
            taken.append(number)
            yield number

    def work(_: object) -> None:
        gate.wait(10)

    with executor_of("threads", 2) as pool:
        done = each_done(pool, work, items(), 2)  # type: ignore[arg-type]
        threading.Timer(0.05, gate.set).start()
        next(done)
        assert len(taken) <= 8
        done.close()


def test_what_is_left_is_cancelled_with_the_loop() -> None:
    gate = threading.Event()
    ran: list[int] = []

    def work(number: int) -> int:
        ran.append(number)
        if number:
            gate.wait(10)
        return number

    with ThreadPoolExecutor(1) as pool:
        done = each_done(pool, work, range(4), 1)
        item, future = next(done)
        assert (item, future.result()) == (0, 0)
        done.close()
        gate.set()
    assert ran in ([0], [0, 1])


def test_a_failure_is_the_business_of_whoever_asks() -> None:
    def work(_: int) -> None:
        raise ValueError

    with executor_of("threads", 1) as pool:
        futures: list[Future[None]] = [future for _, future in each_done(pool, work, range(2), 1)]
    for future in futures:
        with pytest.raises(ValueError):
            future.result()


@pytest.mark.parametrize(
    ("kind", "scheduler", "message"),
    [
        ("ray", None, "'ray' is no executor"),
        ("threads", "tcp://x:1", "a scheduler belongs to the executor dask"),
        ("dask", None, "a scheduler belongs to the executor dask"),
    ],
)
def test_wrong_combinations_are_refused(kind: str, scheduler: str | None, message: str) -> None:
    with pytest.raises(UsageError, match=message), executor_of(kind, 1, scheduler):
        pass


def test_a_scheduler_that_is_away_is_named() -> None:
    with pytest.raises(NetworkError, match=r"the Dask scheduler .* cannot be reached"):
        with executor_of("dask", 1, "tcp://127.0.0.1:9"):
            pass
