# SPDX-License-Identifier: Apache-2.0
"""Connections that are too slow, on a clock that the test turns."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ocibridge.io.content import BytesContent
from ocibridge.settings import KiB
from ocibridge.stores.registry.body import ContentBody, SteadyBody
from ocibridge.stores.registry.options import Timeouts
from ocibridge.stores.registry.pace import Pace, TooSlow

LEAST = Timeouts(rate=100, window=10)
DATA = bytes(range(256)) * 4 * KiB


class Clock:
    """Time that passes when it is told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("ocibridge.stores.registry.body.time.monotonic", clock)
    return clock


def test_the_rate_is_taken_over_the_window() -> None:
    pace = Pace(LEAST)
    pace.moved(0, 9.9)
    pace.moved(1000, 0.1)
    pace.moved(0, 9.9)
    with pytest.raises(TooSlow, match="100 bytes per second"):
        pace.moved(999, 0.1)


def test_a_burst_does_not_pay_for_later_silence() -> None:
    pace = Pace(LEAST)
    pace.moved(1 << 30, 10)
    with pytest.raises(TooSlow):
        pace.moved(1, 10)


def test_a_body_arrives_whole_whatever_its_parts(clock: Clock) -> None:
    body = SteadyBody(ContentBody(BytesContent(DATA)), LEAST)
    for pauses in ((0.0,), (0.0, 3.0), (5.0,)):
        taken = []
        for number, part in enumerate(body):
            taken.append(part)
            clock.now += pauses[number % len(pauses)]
        assert b"".join(taken) == DATA
    assert max(map(len, taken)) == 16 * KiB


def test_parts_grow_while_they_go_fast(clock: Clock) -> None:
    sizes = [len(part) for part in SteadyBody([DATA], LEAST)]
    assert sizes[:4] == [16 * KiB, 32 * KiB, 64 * KiB, 128 * KiB]
    assert sum(sizes) == len(DATA)


def test_a_body_that_is_hardly_taken_is_given_up(clock: Clock) -> None:
    taken = 0
    with pytest.raises(TooSlow):
        for part in SteadyBody([DATA], LEAST):
            taken += len(part)
            clock.now += 200
    assert taken == 16 * KiB


def test_time_spent_on_reading_the_source_does_not_count(clock: Clock) -> None:
    def slow() -> Iterator[bytes]:
        for _ in range(5):
            clock.now += 1000
            yield b"x"

    assert b"".join(SteadyBody(slow(), LEAST)) == b"x" * 5
