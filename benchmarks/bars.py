# SPDX-License-Identifier: Apache-2.0
"""The bars that the project has set for itself, and whether they hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ocibridge.settings import MiB

from . import cases, floors
from .floors import PLAIN_PUT
from .measure import Row, Run
from .results import Results

REMOTE_START = 20
"""Starts of Python that a command may take which asks a registry, beyond the import of `oras`."""


@dataclass(frozen=True)
class Bar:
    """One bar, with what explains a miss.

    Attributes:
        measure: What is measured.
        limit: The bar in words.
        measured: The value in words.
        value: What was measured, in `unit`; None if it could not be.
        bar: The most it may be, in `unit`.
        unit: `s`, `MiB` or the like.
        extra: Steps that only ocibridge does, and their seconds when nothing else is done.
        least: Steps that nobody can leave out, and their seconds.
        peers: Other programs that promise the same result, and their seconds in the same rounds.
        load: What else the figures say of a miss.
    """

    measure: str
    limit: str
    measured: str
    value: float | None
    bar: float
    unit: str = "s"
    extra: Mapping[str, float] = field(default_factory=dict)
    least: Mapping[str, float] = field(default_factory=dict)
    peers: Mapping[str, float] = field(default_factory=dict)
    load: str = ""

    @property
    def holds(self) -> bool | None:
        """Whether it holds; None if nothing was measured."""
        return None if self.value is None else self.value <= self.bar


Extra = Mapping[str, float]


def all_bars(found: Results) -> list[Bar]:
    """The bars in their order."""
    return [*_pushes(found), *_pulls(found), *_again(found), _small(found), memory(found.rows), *_starts(found)]


def against(
    measure: str,
    limit: str,
    ours: float | None,
    theirs: float | None,
    factor: float,
    extra: Extra | None = None,
    least: Extra | None = None,
) -> Bar:
    """At most `factor` times the seconds of another."""
    if ours is None or theirs is None:
        return Bar(measure, limit, "not measured, a tool is missing", None, 0)
    words = f"{ours / theirs:.2f} × ({ours:.2f} s to {theirs:.2f} s)"
    return Bar(measure, limit, words, ours, factor * theirs, extra=extra or {}, least=least or {})


def _wall(run: Run | None) -> float | None:
    return run.wall if run else None


def _pushes(found: Results) -> list[Bar]:
    measure = found.one.push
    curl, skopeo = found.run(measure, cases.CURL), found.run(measure, cases.SKOPEO)
    put = {PLAIN_PUT: found.put.wall}
    processor = {name: found.weight_floors[name].cpu * found.gib for name in (floors.READ, floors.HASH, floors.SEND)}
    bars = []
    # A carton names the digests of its files, but not those of tar layers.
    unknown = found.seconds(floors.HASH)
    for tool, form, extra in ((cases.TAR, "", unknown), (cases.RAW, ", raw-files", {})):
        run = found.run(measure, tool)
        bars.append(against(f"{measure}{form}, wall", "≤ 1.05 × curl's PUT", _wall(run), _wall(curl), 1.05, extra, put))
        cpu = run.cpu if run else None
        limit = "≤ skopeo's"
        bars.append(
            against(f"{measure}{form}, client CPU", limit, cpu, skopeo.cpu if skopeo else None, 1, least=processor)
        )
    return bars


def _pulls(found: Results) -> list[Bar]:
    measure = found.one.pull
    folder, carton = found.run(measure, cases.FOLDER), found.run(measure, cases.CARTON)
    curl, skopeo = _wall(found.run(measure, cases.CURL)), _wall(found.run(measure, cases.SKOPEO))
    ours = _wall(folder)
    syncs = found.seconds(floors.SYNC) if found.pull.syncs else {}
    least = found.seconds(floors.GET, floors.HASH, floors.WRITE)
    name = f"{measure}, to a folder"
    peers = {tool: run.wall for tool in (cases.CURL_THEN, cases.CURL_BESIDE) if (run := found.run(measure, tool))}
    unpacked = against(name, "≤ 1.4 × curl -o FILE", ours, curl, 1.4, found.seconds(floors.HASH) | syncs)
    bars = [
        replace(unpacked, peers=peers),
        against(name, "≤ 0.7 × skopeo copy to a layout", ours, skopeo, 0.7, least=least),
    ]
    name = f"{measure}, to .carton"
    syncs = found.seconds(floors.SYNC) if found.pull_carton.syncs and not found.pull.syncs else {}
    extra = found.seconds(floors.CRC) | syncs
    bars.append(against(name, "≤ 1.1 × pull to a folder", _wall(carton), ours, 1.1, extra))
    if carton:
        peak, size = carton.disk / MiB, found.carton / MiB
        words = f"{peak / size:.3f} × ({peak:.1f} MiB to {size:.1f} MiB)"
        bars.append(Bar(f"{name}, disk peak", "≤ 1.02 × the carton", words, peak, 1.02 * size, "MiB"))
    return bars


def _again(found: Results) -> list[Bar]:
    """The second bar compares with a push of 1 MiB: what both read is the program itself."""
    large, tiny = found.run(found.one.again, cases.AGAIN), found.run(found.tiny.again, cases.AGAIN)
    if not large or not tiny:
        return []
    bars = [
        Bar(
            found.one.again,
            "≤ 1 s",
            f"{large.wall:.2f} s",
            large.wall,
            1.0,
            extra=found.seconds(floors.READ, floors.HASH),
        )
    ]
    if large.read is not None and tiny.read is not None:
        more = (large.read - tiny.read) / MiB
        words = f"{large.read / MiB:.2f} MiB read from files, {more:+.2f} MiB to the same with a carton of 1 MiB"
        bars.append(Bar(f"{found.one.again}, bytes read", "no weight byte", words, more, 0.5, "MiB"))
    return bars


def _small(found: Results) -> Bar:
    ours = _sum(found.run(found.many.push, cases.TAR), found.run(found.many.pull, cases.FOLDER))
    theirs = _sum(found.run(found.many.push, cases.ORAS), found.run(found.many.pull, cases.ORAS))
    measure, limit = f"push and pull, {found.many.label}", "≥ 3 × as fast as the oras package"
    if ours is None or theirs is None:
        return Bar(measure, limit, "not measured, a tool is missing", None, 0)
    words = f"{theirs / ours:.2f} × as fast ({ours:.2f} s to {theirs:.2f} s)"
    least = {name: floor.wall for name, floor in found.file_floors.items()}
    return Bar(measure, limit, words, ours, theirs / 3, least=least)


def _sum(push: Run | None, pull: Run | None) -> float | None:
    return push.wall + pull.wall if push and pull else None


def memory(rows: Sequence[Row]) -> Bar:
    """The peak of everything that ocibridge did."""
    ours = [row for row in rows if row.tool.startswith("ocibridge")]
    largest = max(ours, key=lambda row: row.run.rss)
    peak = largest.run.rss / MiB
    words = f"{peak:.0f} MiB ({largest.measure}, {largest.tool})"
    return Bar("peak RSS, all of ocibridge", "≤ 100 MiB", words, peak, 100, "MiB")


def _starts(found: Results) -> list[Bar]:
    """Two commands that need no registry, and one that does, which may take the import of `oras` longer."""
    base, pydantic, oras = (_wall(found.run(cases.START, tool)) for tool in (cases.PASS, cases.PYDANTIC, cases.IMPORT))
    least = {cases.PYDANTIC: pydantic} if pydantic else {}
    names: tuple[tuple[str, int, Extra], ...] = ((cases.HELP, 10, {}), (cases.INSPECT, 20, least))
    bars = [
        against(tool, f"≤ {factor} × {cases.PASS}", _wall(found.run(cases.START, tool)), base, factor, least=known)
        for tool, factor, known in names
    ]
    ours = _wall(found.run(cases.START, cases.REMOTE))
    if base is None or oras is None or ours is None:
        return bars
    more = max(0.0, oras - base)
    limit = f"≤ {REMOTE_START} × {cases.PASS}, and {more:.2f} s for the import of oras"
    words = f"{(ours - more) / base:.2f} × and the import ({ours:.2f} s to {base:.2f} s and {more:.2f} s)"
    least = {**least, cases.IMPORT: oras}
    return [*bars, Bar(cases.REMOTE, limit, words, ours, REMOTE_START * base + more, least=least)]


def evidence(bar: Bar) -> str:
    """Which floors stand behind a bar that does not hold, in words that follow from the figures."""
    if bar.value is None:
        return ""
    gap = bar.value - bar.bar
    said = [f"{gap:.2f} {bar.unit} above the bar."]
    if bar.extra:
        together = sum(bar.extra.values())
        verdict = "more than the gap" if together > gap else "less than the gap, which they do not explain"
        said.append(
            f"Steps that the other does not do, each alone: {_listed(bar.extra)}; together {together:.2f} s, {verdict}."
        )
    if bar.least:
        name, longest = max(bar.least.items(), key=lambda item: item[1])
        together = sum(bar.least.values())
        if longest > bar.bar:
            verdict = f"{name} alone is above the bar of {bar.bar:.2f} s"
        elif together > bar.bar:
            verdict = f"together {together:.2f} s, above the bar of {bar.bar:.2f} s: one after the other they miss it"
        else:
            verdict = f"together {together:.2f} s, below the bar of {bar.bar:.2f} s: they do not explain it"
        said.append(f"Steps that nobody can leave out, each alone: {_listed(bar.least)}; {verdict}.")
    if bar.peers:
        name, shortest = min(bar.peers.items(), key=lambda item: item[1])
        verdict = "above the bar, too" if shortest > bar.bar else "below the bar"
        said.append(
            f"C programs that hash and flush as we do, in the same rounds: {_listed(bar.peers)}; the faster takes "
            f"{shortest:.2f} s, {verdict}, and we take {bar.value / shortest:.2f} × that."
        )
    return " ".join([*said, *([bar.load] if bar.load else [])])


def _listed(steps: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {seconds:.2f} s" for name, seconds in steps.items())
