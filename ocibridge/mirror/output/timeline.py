# SPDX-License-Identifier: Apache-2.0
"""The time line of a run: a bar for each tag, by target host, in as few lanes as there was work at a time."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import NamedTuple

from ..reports import MirrorItem, Outcome

NARROW = 0.1
"""Per cent of the width: narrower bars of one outcome that follow each other in a lane are drawn as one."""

WIDE = 0.5
"""Per cent of the width: from here on a bar can spare the line that sets it off from the next."""

_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_MOST_TICKS = 5
_MOST_HEIGHT = 260
_LANE = (3, 14)


def human_seconds(seconds: float) -> str:
    """A duration for people.

    Example:
        >>> human_seconds(252.4)
        '4 min 12 s'
    """
    if seconds < 9.95:
        return f"{max(seconds, 0):.1f} s"
    whole = round(seconds)
    for size, unit, small, part in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // small
            return f"{whole // size} {unit}" + (f" {rest} {part}" if rest else "")
    return f"{whole} s"


def moment(text: str) -> datetime | None:
    """A time of RFC 3339, in UTC where it does not say; None where it is none."""
    try:
        # Python 3.10 knows no "Z".
        found = datetime.fromisoformat(text.removesuffix("Z") + ("+00:00" if text.endswith("Z") else ""))
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=timezone.utc)).astimezone(timezone.utc)


def host_of(target: str) -> str:
    """The host of a reference; of a layout, the word before its path.

    Example:
        >>> host_of("registry.example:5000/models/tiny:1")
        'registry.example:5000'
    """
    first = target.partition("/")[0]
    kind = target.partition(":")[0]
    return kind if kind in ("oci", "oci-archive") else first


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of the time line.

    Attributes:
        lane: From 0, downwards.
        left: Per cent of the width.
        width: Per cent of the width.
        outcome: Of the tags that it stands for.
        items: How many these are.
        first: Number of the first one in the report.
    """

    lane: int
    left: float
    width: float
    outcome: Outcome
    items: int
    first: int


class Timed(NamedTuple):
    """The part of an item that a bar shows; `started` is in seconds since 1970."""

    started: float
    seconds: float
    outcome: Outcome


def timed(item: MirrorItem) -> Timed | None:
    """The bar of an item; None if it has no time."""
    if item.started is None or not 0 <= item.seconds < math.inf:
        return None
    return Timed(item.started.timestamp(), item.seconds, item.outcome)


def bars(items: Sequence[tuple[int, Timed]], begin: float, span: float) -> list[Bar]:
    """Place the bars in lanes without overlap, in as few lanes as there were simultaneous tags.

    Args:
        items: With their numbers.
        begin: Left edge, in seconds since 1970.
        span: Seconds from the left edge to the right one, more than 0.
    """
    found: list[Bar] = []
    last: dict[int, int] = {}
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    for number, item in sorted(items, key=lambda each: each[1].started):
        while busy and busy[0][0] <= item.started:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (item.started + item.seconds, lane))
        left = (item.started - begin) / span * 100
        bar = Bar(lane, left, item.seconds / span * 100, item.outcome, 1, number)
        before = found[last[lane]] if lane in last else None
        if (
            before
            and before.outcome == bar.outcome
            and bar.width < NARROW
            and left < before.left + before.width + NARROW
        ):
            width = max(before.width, left + bar.width - before.left)
            found[last[lane]] = replace(before, width=width, items=before.items + 1)
        else:
            last[lane] = len(found)
            found.append(bar)
    return found


def ticks(span: float) -> list[float]:
    """Round numbers of seconds from 0 to `span`, few enough to be read on a telephone."""
    step = next((each for each in _STEPS if span / each <= _MOST_TICKS), 0)
    while not step or span / step > _MOST_TICKS:
        step = (step or _STEPS[-1]) * 2
    return [step * number for number in range(int(span / step) + 1)]


class Tick(NamedTuple):
    """A mark of the axis: where it is, in per cent of the width, and what stands there."""

    left: float
    label: str


class HostRow(NamedTuple):
    """The tags of one target host.

    Attributes:
        name: Of the host.
        tags: How many.
        lanes: Bars above each other, at most.
        height: Of a lane, in pixels.
        bars: Those of tags that failed last, so that none hides behind its neighbour.
    """

    name: str
    tags: int
    lanes: int
    height: int
    bars: list[Bar]


class Timeline(NamedTuple):
    """One drawing a host, and the axis below them; `span` is in seconds."""

    span: float
    ticks: list[Tick]
    hosts: list[HostRow]


def timeline(items: Sequence[MirrorItem], begin: float, seconds: float) -> Timeline | None:
    """Compute the time line; None if no item has a time.

    Args:
        items: Of a report.
        begin: When the run began, in seconds since 1970.
        seconds: How long it took.
    """
    hosts: dict[str, list[tuple[int, Timed]]] = {}
    end = 0.0
    for number, item in enumerate(items):
        if bar := timed(item):
            hosts.setdefault(host_of(item.target), []).append((number, bar))
            # The clock of another machine may be ahead or behind.
            begin, end = min(begin, bar.started), max(end, bar.started + bar.seconds)
    if not hosts:
        return None
    span = max(begin + seconds, end) - begin or 1.0
    marks = [
        Tick(mark / span * 100, human_seconds(mark) if mark % 1 or mark >= 60 else f"{mark:.0f} s")
        for mark in ticks(span)
    ]
    return Timeline(span, marks, [_host(name, bars(mine, begin, span), len(mine)) for name, mine in hosts.items()])


def _host(name: str, found: Sequence[Bar], tags: int) -> HostRow:
    lanes = max(bar.lane for bar in found) + 1
    height = min(max(_MOST_HEIGHT // lanes, _LANE[0]), _LANE[1])
    return HostRow(name, tags, lanes, height, sorted(found, key=lambda bar: bar.outcome == "failed"))
