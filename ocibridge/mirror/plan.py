# SPDX-License-Identifier: Apache-2.0
"""`mirror plan` and `mirror check`: what a run would do, from HEAD requests where these suffice."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from ..errors import InvalidReference, OcibridgeError
from ..oci import parse_reference
from ..report import Moves
from ..transfer import Progress, Task
from .executors import WORKERS, each_done
from .items import ItemList
from .jobs.job import Job
from .journal import MirrorJournal, known_in
from .options import MirrorOptions
from .prune import PruneTarget, plan_prune
from .reports import ACTIONS, FAILED, Failure, MirrorItem, MirrorPlan, PlanFailure, PlannedItem
from .storepool import StorePool
from .units import Expansion, expand
from .work import Unit, Worker, failure, way_of


def mirror_plan(
    job: str | os.PathLike[str] | Job,
    options: MirrorOptions = MirrorOptions(),
    *,
    journal: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> MirrorPlan:
    """Plan a run of a job; nothing is changed.

    Args:
        job: The job file.
        options: What of it is planned, and how; `mirror check` asks for `full`.
        journal: File with the notes of earlier runs; None trusts none. It is read, and not written.
        progress: Receives progress events.

    Raises:
        SourceError: the job file cannot be read.
        FormatError: it is not valid.
    """
    loaded = job if isinstance(job, Job) else Job.load(job)
    progress = progress or Progress()
    known = {} if journal is None else MirrorJournal.read(Path(journal))
    worker = Worker(loaded)
    items = ItemList(PlannedItem)
    totals, counts = Moves(), Counter(dict.fromkeys(ACTIONS, 0))
    failures: list[tuple[int, PlanFailure]] = []
    try:
        work = expand(loaded, worker.pool, options.shard, listed=worker.listed)
        for each in work.failures:
            assert each.error is not None
            failures.append((-1, _failed(each, each.error)))
        ways = [way_of(entry) for entry in loaded.entries]
        units = (
            (number, replace(unit, known=known_in(known, unit.target, ways[unit.entry]), full=options.full))
            for number, unit in enumerate(work.units)
        )
        progress.plan("planning", len(work.units), 0)

        def add(item: PlannedItem, number: int) -> None:
            nonlocal totals
            items.add(item, number)
            totals = Moves.sum([totals, item.moves])
            counts[item.action] += 1

        def look(each: tuple[int, Unit]) -> PlannedItem | Failure:
            task = Task("planning", each[1].target, 0)
            progress.start(task)
            try:
                return worker.plan(each[1])
            except OcibridgeError as exc:
                return failure(exc)
            finally:
                progress.finish(task, "done")

        with ThreadPoolExecutor(WORKERS, thread_name_prefix="ocibridge-mirror") as pool:
            try:
                for (number, unit), future in each_done(pool, look, units, WORKERS):
                    found = future.result()
                    if isinstance(found, Failure):
                        failures.append((number, _failed(unit, found)))
                    else:
                        add(found, number)
            except BaseException:
                worker.interrupt()
                raise
        failed = {repository_of(each.target) for _, each in failures}
        for item in pruning(places_of(loaded, work), failed, worker.pool):
            add(item, len(work.units))
    finally:
        worker.close()
    return MirrorPlan(
        job=str(loaded.path),
        job_digest=loaded.digest,
        items=items,
        failures=[each for _, each in sorted(failures, key=lambda pair: pair[0])],
        totals=totals,
        counts={**counts, FAILED: len(failures)},
    )


def _failed(what: Unit | MirrorItem, error: Failure) -> PlanFailure:
    return PlanFailure(entry=what.entry, source=what.source, target=what.target, error=error)


def places_of(job: Job, work: Expansion) -> list[PruneTarget]:
    """The repositories that are pruned, with all that any entry of the job brings to them."""
    expected: dict[str, set[str]] = defaultdict(set)
    backups: dict[str, set[str]] = defaultdict(set)
    for group in work.groups:
        entry = job.entries[group.entry]
        expected[group.target.name] |= group.tags
        backups[group.target.name] |= {each for each in (entry.sync.backup, entry.prune.backup) if each}
    found: dict[str, PruneTarget] = {}
    for group in work.groups:
        entry = job.entries[group.entry]
        if group.mine and entry.prune is not None and entry.prune.enabled:
            name = group.target.name
            place = PruneTarget(group.entry, entry, group.target, frozenset(expected[name]), frozenset(backups[name]))
            found.setdefault(name, place)
    return list(found.values())


def pruning(places: Sequence[PruneTarget], failed: set[str], pool: StorePool) -> list[PlannedItem]:
    """Return the tags to prune and to keep; nothing is pruned unless everything is in sync."""
    found: list[PlannedItem] = []
    for place in places:
        try:
            planned = plan_prune(place, pool)
        except OcibridgeError as exc:
            reason = f"its tags cannot be read: {exc.message}"
            found.append(
                PlannedItem(
                    entry=place.number, action="keep", source=None, target=place.target.name, digest=None, reason=reason
                )
            )
            continue
        found += [unless_failed(item, failed) for item in planned]
    return found


def unless_failed(item: PlannedItem, failed: set[str]) -> PlannedItem:
    """Return the item, kept if anything of its repository has failed."""
    name = repository_of(item.target)
    # What failed may be a registry as a whole, or all below a prefix.
    if item.action != "prune" or not any(name == each or name.startswith(f"{each}/") for each in failed):
        return item
    reason = "not everything of this repository could be brought in sync"
    return item.model_copy(update={"action": "keep", "reason": reason})


def repository_of(target: str) -> str:
    """The repository of an item; where a registry could not be listed, the registry or prefix that it was for."""
    try:
        return parse_reference(target).name
    except InvalidReference:
        return target
