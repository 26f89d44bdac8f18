# SPDX-License-Identifier: Apache-2.0
"""The time line of a run as SVG: a bar for each tag, by target host, in as few lanes as there was work at a time."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from ...errors import human_size
from ..reports import MirrorItem, Outcome
from .markup import Markup, element, joined

NARROW = 0.1
"""Per cent of the width: narrower bars of one outcome that follow each other in a lane are drawn as one."""

_WIDE = 0.5
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


def bars(items: Sequence[tuple[int, MirrorItem]], begin: float, span: float) -> list[Bar]:
    """Where the bars go: none lies upon another in its lane, and there are no more lanes than tags at a time.

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


def timeline(items: Sequence[MirrorItem], begin: float, seconds: float) -> Markup:
    """One drawing a host, and below them the axis; nothing where no item says when it was worked on.

    Args:
        items: Of a report.
        begin: When the run began, in seconds since 1970.
        seconds: How long it took.
    """
    timed = [(number, item) for number, item in enumerate(items) if _is_timed(item)]
    if not timed:
        return Markup()
    # The clock of another machine may be ahead or behind.
    begin = min([begin, *(item.started for _, item in timed)])
    span = max([begin + seconds, *(item.started + item.seconds for _, item in timed)]) - begin or 1.0
    hosts: dict[str, list[tuple[int, MirrorItem]]] = {}
    for number, item in timed:
        hosts.setdefault(host_of(item.target), []).append((number, item))
    marks = ticks(span)
    drawings = [_drawing(host, mine, items, begin, span, marks) for host, mine in hosts.items()]
    return joined(*drawings, _axis(marks, span))


def _is_timed(item: MirrorItem) -> bool:
    return 0 < item.started < math.inf and 0 <= item.seconds < math.inf


def _drawing(
    host: str,
    mine: Sequence[tuple[int, MirrorItem]],
    items: Sequence[MirrorItem],
    begin: float,
    span: float,
    marks: Iterable[float],
) -> Markup:
    found = bars(mine, begin, span)
    lanes = max(bar.lane for bar in found) + 1
    height = min(max(_MOST_HEIGHT // lanes, _LANE[0]), _LANE[1])
    lines = [_line(mark, span, lanes * height) for mark in marks]
    # What failed must not hide behind its neighbour.
    drawn = [_bar(bar, height, items) for bar in sorted(found, key=lambda bar: bar.outcome == "failed")]
    said = f"{len(mine)} {'tag' if len(mine) == 1 else 'tags'} of {host} over {human_seconds(span)}"
    picture = element("svg", *lines, *drawn, width="100%", height=lanes * height, role="img", aria_label=said)
    return element("div", element("h3", element("bdi", host)), picture, class_="host")


def _bar(bar: Bar, height: int, items: Sequence[MirrorItem]) -> Markup:
    first = items[bar.first]
    if bar.items > 1:
        said = f"{bar.items} tags {bar.outcome}, from {first.target} on"
    else:
        moved = f", {human_size(first.moves.copied_bytes)} moved" if first.moves.copied_bytes else ""
        said = f"{first.target}: {bar.outcome} in {human_seconds(first.seconds)}{moved}"
    return element(
        "rect",
        element("title", said),
        x=f"{bar.left:.3f}%",
        y=bar.lane * height + 1,
        width=f"{max(bar.width, NARROW):.3f}%",
        height=height - 1,
        rx=2 if bar.width >= _WIDE else None,
        class_=f"{bar.outcome} wide" if bar.width >= _WIDE else bar.outcome,
        data_item=bar.first,
    )


def _line(mark: float, span: float, height: int) -> Markup:
    where = f"{mark / span * 100:.3f}%"
    return element("line", x1=where, x2=where, y1=0, y2=height)


def _axis(marks: Sequence[float], span: float) -> Markup:
    labels = []
    for mark in marks:
        where = mark / span * 100
        anchor = "start" if where < 5 else "end" if where > 92 else "middle"
        label = human_seconds(mark) if mark % 1 or mark >= 60 else f"{mark:.0f} s"
        labels.append(element("text", label, x=f"{where:.3f}%", y=14, text_anchor=anchor))
    return element("svg", *labels, width="100%", height=18, class_="axis", aria_hidden="true")
