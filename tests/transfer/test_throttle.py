# SPDX-License-Identifier: Apache-2.0
"""The limit on the bytes of each second."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from ocibridge.errors import UsageError
from ocibridge.transfer.throttle import Throttle
from ocibridge.transfer.workers import Cancelled

RATE = 1000


class Time(threading.Event):
    """A clock that only goes on while somebody waits."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1e6

    def __call__(self) -> float:
        return self.now

    def wait(self, timeout: float | None = None) -> bool:
        if not self.is_set():
            assert timeout is not None
            assert timeout > 0
            self.now += timeout
        return self.is_set()


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture
def throttle(clock: Time) -> Throttle:
    return Throttle(RATE, clock, clock)


def seconds(clock: Time, throttle: Throttle, *counts: int) -> float:
    start = clock.now
    for count in counts:
        throttle.take(count)
    return round(clock.now - start, 6)


def test_one_second_of_bytes_passes_at_once(clock: Time, throttle: Throttle) -> None:
    assert seconds(clock, throttle, 400, 600) == 0
    assert seconds(clock, throttle, 1) == 0.001


def test_after_that_the_rate_holds(clock: Time, throttle: Throttle) -> None:
    throttle.take(RATE)
    assert seconds(clock, throttle, *[10] * 500) == 5


def test_more_than_one_second_of_bytes_passes_too(clock: Time, throttle: Throttle) -> None:
    assert seconds(clock, throttle, 20 * RATE) == 19


def test_a_long_rest_saves_up_one_second_only(clock: Time, throttle: Throttle) -> None:
    throttle.take(5 * RATE)
    clock.now += 3600
    assert seconds(clock, throttle, RATE) == 0
    assert seconds(clock, throttle, RATE) == 1


def test_a_short_rest_saves_up_what_it_lasted(clock: Time, throttle: Throttle) -> None:
    throttle.take(5 * RATE)
    clock.now += 0.25
    assert seconds(clock, throttle, 1000) == 0.75


def test_what_is_taken_back_frees_nothing(clock: Time, throttle: Throttle) -> None:
    throttle.take(RATE)
    assert seconds(clock, throttle, -RATE, 0) == 0
    assert seconds(clock, throttle, RATE) == 1


def test_who_is_stopped_does_not_wait() -> None:
    throttle = Throttle(1)
    throttle.take(1)
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(throttle.take, 1 << 20) for _ in range(4)]
        throttle.stop()
        for each in waiting:
            assert isinstance(each.exception(timeout=30), Cancelled)
    with pytest.raises(Cancelled):
        throttle.take(1)


def test_an_event_of_others_stops_it() -> None:
    stopped = threading.Event()
    throttle = Throttle(1, stopped)
    timer = threading.Timer(0.05, stopped.set)
    timer.start()
    with pytest.raises(Cancelled):
        throttle.take(1 << 20)
    timer.join()


def test_threads_share_the_rate() -> None:
    throttle = Throttle(1 << 20)
    started = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        for each in [pool.submit(throttle.take, 16 << 10) for _ in range(80)]:
            each.result(timeout=30)
    # 1.25 MiB, of which the first one is free.
    assert 0.24 <= time.monotonic() - started < 20


@pytest.mark.parametrize("rate", [0, -5, 0.5])
def test_a_rate_that_lets_nothing_pass(rate: float) -> None:
    with pytest.raises(UsageError, match=r"lets nothing pass; choose a larger one"):
        Throttle(rate)
