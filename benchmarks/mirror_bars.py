# SPDX-License-Identifier: Apache-2.0
"""The bars for mirror jobs."""

from __future__ import annotations

from dataclasses import replace

from ocibridge.settings import MiB

from . import floors
from .bars import Bar, against
from .mirror_inputs import THREADS
from .mirror_results import CURL, OURS, PINNED, REGSYNC, ROUND_TRIP, SKOPEO, Measured, Mirrored, Names

LIMIT = 100
"""MiB of memory."""
COLD = {REGSYNC: 1.2, SKOPEO: 2.0}
"""How many times the rate of another ours has to be, for artifacts that the target does not have."""
AGAIN = 2.0
"""Times regsync's time, for artifacts that the target has."""
EFFICIENCY = 0.75
"""Of so many workers, as a share, the speed has to be: 3 × of 4."""


def mirror_bars(found: Mirrored, cores: int) -> list[Bar]:
    """The bars in their order.

    Args:
        found: The measurements.
        cores: Processors of the machine.
    """
    names = Names(found.amount)
    least = {f"pushing them to one registry over {THREADS} plain sockets": found.pushing}
    cold = [_rate(found, names.cold, tool, factor, cores) for tool, factor in COLD.items()]
    return [
        *(replace(bar, least=least) for bar in cold),
        _again(found, cores),
        *_requests(found),
        *_large(found, cores),
        *_same(found),
        *_far(found, cores),
    ]


def _rate(found: Mirrored, measure: str, tool: str, factor: float, cores: int) -> Bar:
    """At least `factor` times the rate of another."""
    ours, theirs = found.find(measure, OURS), found.find(measure, tool)
    limit = f"≥ {factor:g} × {tool}'s rate"
    if ours is None or theirs is None:
        return Bar(measure, limit, "not measured, a tool is missing", None, 0)
    bar = theirs.row.run.wall / factor
    words = f"{ours.rate / theirs.rate:.2f} × ({ours.rate:.0f} a second to {theirs.rate:.0f} a second)"
    return Bar(measure, limit, words, ours.row.run.wall, bar, load=load(ours, bar, cores))


def _again(found: Mirrored, cores: int) -> Bar:
    """At most `AGAIN` times the time of regsync."""
    names = Names(found.amount)
    ours, theirs = found.find(names.again, OURS), found.find(names.again, REGSYNC)
    ours_wall, their_wall = (each.row.run.wall if each else None for each in (ours, theirs))
    bar = against(names.again, f"≤ {AGAIN:g} × {REGSYNC}'s time", ours_wall, their_wall, AGAIN)
    one = found.find(names.one, OURS)
    if bar.value is None or ours is None or one is None:
        return bar
    least = {
        "a run with 1 artifact": one.row.run.wall,
        "the registries' processor time for a HEAD of each tag, on all processors": found.heads.server / cores,
    }
    plain = (
        f"A HEAD of each tag at both registries over plain sockets, one after the other, and nothing else, takes "
        f"{found.heads.wall:.2f} s."
    )
    return replace(bar, least=least, load=f"{plain} {load(ours, bar.bar, cores)}")


def _requests(found: Mirrored) -> list[Bar]:
    names = Names(found.amount)
    bars = []
    pinned, plain = found.find(names.again, PINNED), found.find(names.again, OURS)
    if pinned:
        count = (pinned.source.content + pinned.target.content) / pinned.tags
        words = f"{count:.2f} a tag ({pinned.source.content} at the source, {pinned.target.content} at the target)"
        bars.append(Bar(f"{names.again}, digests pinned, requests", "1 a tag", words, count, 1, "requests"))
    if plain:
        count = max(plain.source.content, plain.target.content) / plain.tags
        words = f"{plain.source.content / plain.tags:.2f} and {plain.target.content / plain.tags:.2f} a tag"
        bars.append(
            Bar(f"{names.again}, requests at source and target", "1 a tag at each", words, count, 1, "requests")
        )
    return bars


def _large(found: Mirrored, cores: int) -> list[Bar]:
    measure = Names(found.amount).large
    ours, theirs = found.find(measure, OURS), found.find(measure, CURL)
    if ours is None:
        return []
    run = ours.row.run
    wall = against(
        f"{measure}, wall",
        "≤ 1.1 × a curl pipe",
        run.wall,
        theirs.row.run.wall if theirs else None,
        1.1,
        {floors.HASH: found.hashing},
    )
    peak, disk = run.rss / MiB, run.disk / MiB
    return [
        replace(wall, load=load(ours, wall.bar, cores)),
        Bar(f"{measure}, peak RSS", f"≤ {LIMIT} MiB", f"{peak:.0f} MiB", peak, LIMIT, "MiB"),
        Bar(f"{measure}, peak disk", "≤ 1 MiB: notes, and nothing of the weight", f"{disk:.2f} MiB", disk, 1, "MiB"),
    ]


def _same(found: Mirrored) -> list[Bar]:
    measure = Names(found.amount).same
    ours = found.find(measure, OURS)
    if ours is None:
        return []
    moved, asked = ours.source.moved + ours.target.moved, ours.source.requests + ours.target.requests
    words = f"{moved} of {asked} requests carry bytes of blobs; {ours.row.run.wall:.2f} s"
    return [Bar(measure, "no blob byte moves", words, moved, 0, "requests")]


def _far(found: Mirrored, cores: int) -> list[Bar]:
    names, number = Names(found.amount), found.amount.workers
    one, several = (found.find(names.far, names.workers(count)) for count in (1, number))
    if one is None or several is None:
        return []
    factor = EFFICIENCY * number
    ours, theirs = several.row.run.wall, one.row.run.wall
    bar = theirs / factor
    words = f"{theirs / ours:.2f} × ({ours:.2f} s to {theirs:.2f} s)"
    measure = f"Dask, {number} workers against 1, {ROUND_TRIP} ms away"
    return [Bar(measure, f"≥ {factor:g} ×", words, ours, bar, load=load(several, bar, cores))]


def load(taken: Measured, bar: float, cores: int) -> str:
    """What the processors were doing, in a sentence that follows from the figures.

    Args:
        taken: A measurement.
        bar: Seconds that it may take.
        cores: Processors of the machine.
    """
    run = taken.row.run
    others = f", cluster and proxy {taken.others:.2f} s" if taken.others else ""
    least = taken.cpu / cores
    verdict = "above" if least > bar else "below"
    return (
        f"Processor time within the {run.wall:.2f} s: client {run.cpu:.2f} s, registries {run.server:.2f} s{others}, "
        f"which is {taken.cpu / (run.wall * cores):.0%} of the {cores} processors; without a single wait it would take "
        f"{least:.2f} s, {verdict} the bar of {bar:.2f} s; the registries alone, {run.server / cores:.2f} s."
    )
