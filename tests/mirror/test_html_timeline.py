# SPDX-License-Identifier: Apache-2.0
"""The time line: no bar upon another, no bar lost."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocibridge.mirror.output.html import report_page
from ocibridge.mirror.output.timeline import NARROW, Bar, bars, host_of, human_seconds, moment, ticks, timed, timeline
from ocibridge.mirror.reports import MirrorItem

from .pages import BEGAN, item, report

starts = st.integers(0, 1_000_000).map(lambda value: value / 1000)
durations = st.integers(1, 1_000_000).map(lambda value: value / 1000)
outcomes = st.sampled_from(["copied", "skipped", "failed"])


@given(st.lists(st.tuples(starts, durations, outcomes), max_size=40))
def test_bars_hold_every_item_and_do_not_overlap(drawn: list[tuple[float, float, str]]) -> None:
    items = [item(outcome, started=BEGAN + start, seconds=seconds) for start, seconds, outcome in drawn]
    found = bars_of(items, 2000.0)
    assert sum(bar.items for bar in found) == len(items)
    lanes: dict[int, float] = {}
    for bar in sorted(found, key=lambda bar: bar.left):
        assert bar.left >= lanes.get(bar.lane, 0.0) - 1e-6
        lanes[bar.lane] = bar.left + bar.width
    assert len(lanes) == busiest(items)


def bars_of(items: list[MirrorItem], span: float) -> list[Bar]:
    return bars([(number, bar) for number, each in enumerate(items) if (bar := timed(each))], BEGAN, span)


def busiest(items: list[MirrorItem]) -> int:
    """Most items at a time."""

    def at_once(when: float) -> int:
        return sum(each.started <= when < each.started + each.seconds for each in found)

    found = [bar for each in items if (bar := timed(each))]
    return max((at_once(each.started) for each in found), default=0)


def test_many_short_bars_of_one_outcome_become_one_and_others_stay() -> None:
    items = [item("skipped", started=BEGAN + number / 1000, seconds=0.001) for number in range(1000)]
    items[500] = item("failed", started=items[500].started, seconds=0.001)
    found = bars_of(items, 1000.0)
    assert [(bar.outcome, bar.items) for bar in found] == [("skipped", 500), ("failed", 1), ("skipped", 499)]
    assert all(bar.width <= NARROW + 1e-9 for bar in found)


def test_one_drawing_a_host_with_its_tags() -> None:
    items = [
        item("copied", target="b.example:5000/m:1", started=BEGAN, seconds=4.0),
        item("failed", target="c.example/m:1", started=BEGAN + 2, seconds=2.0),
        item("copied", target="b.example:5000/m:2", started=BEGAN + 4, seconds=4.0),
        item("copied", target="c.example/never:1"),
    ]
    drawn = report_page(report(items, seconds=8.0)).partition("Timeline")[2].partition("All tags")[0]
    assert drawn.count('class="host"') == 2
    assert "2 tags of b.example:5000 over 8.0 s" in drawn
    assert "1 tag of c.example over 8.0 s" in drawn
    assert drawn.count("<rect") == 3
    assert 'x="50.000%" y="1" width="50.000%"' in drawn
    assert "never" not in drawn


def test_items_of_a_clock_that_is_behind_or_ahead_are_drawn_within_the_picture() -> None:
    items = [item(started=BEGAN - 5, seconds=1.0), item(started=BEGAN + 20, seconds=5.0)]
    drawn = timeline(items, BEGAN, 10.0)
    assert drawn
    (host,) = drawn.hosts
    assert [(round(bar.left, 3), round(bar.width, 3)) for bar in host.bars] == [(0.0, 3.333), (83.333, 16.667)]


def test_an_item_that_never_began_is_not_drawn() -> None:
    assert timeline([item(seconds=1.0)], BEGAN, 1.0) is None


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -1.0])
def test_durations_that_are_none_are_not_drawn(seconds: float) -> None:
    assert timeline([item(started=BEGAN, seconds=seconds)], BEGAN, 1.0) is None


def test_a_run_of_no_time_is_drawn() -> None:
    drawn = timeline([item(started=BEGAN, seconds=0.0)], BEGAN, 0.0)
    assert drawn
    assert [len(host.bars) for host in drawn.hosts] == [1]


@given(st.floats(0.001, 1e9))
def test_ticks_are_few_and_round(span: float) -> None:
    marks = ticks(span)
    assert marks[0] == 0
    assert len(marks) <= 6
    assert all(0 <= mark <= span for mark in marks)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0.0 s"),
        (-3, "0.0 s"),
        (0.44, "0.4 s"),
        (9.96, "10 s"),
        (59.6, "1 min"),
        (252.4, "4 min 12 s"),
        (3600, "1 h"),
        (7500, "2 h 5 min"),
        (90000, "1 d 1 h"),
    ],
)
def test_durations_for_people(seconds: float, said: str) -> None:
    assert human_seconds(seconds) == said


@pytest.mark.parametrize(
    ("target", "host"),
    [
        ("b.example:5000/m:1", "b.example:5000"),
        ("[::1]:5000/m:1", "[::1]:5000"),
        ("oci:/srv/models:1", "oci"),
        ("oci-archive:models.tar:1", "oci-archive"),
        ("", ""),
    ],
)
def test_hosts_of_targets(target: str, host: str) -> None:
    assert host_of(target) == host


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2026-11-22T02:00:00Z", "2026-11-22T02:00:00+00:00"),
        ("2026-11-22T03:30:00.250000+01:30", "2026-11-22T02:00:00.250000+00:00"),
        ("2026-11-22T02:00:00", "2026-11-22T02:00:00+00:00"),
        ("yesterday", None),
        ("", None),
    ],
)
def test_moments(text: str, said: str | None) -> None:
    found = moment(text)
    assert (found and found.isoformat()) == said
