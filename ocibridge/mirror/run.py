# SPDX-License-Identifier: Apache-2.0
"""`mirror run`: every tag of a job is brought in sync, whatever happens to the others."""

from __future__ import annotations

import os
import platform
import time
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from ..errors import OcibridgeError, UsageError
from ..report import Moves, now, rfc3339
from ..transfer import Progress, Task
from .executors import each_done, workers_by_default
from .items import ItemList
from .jobs.job import Job
from .journal import MirrorJournal
from .options import RunOptions
from .plan import places_of, pruning, repository_of, unless_failed
from .prune import prune, still_to_prune
from .remote import RemoteWork
from .reports import IN_SYNC, OUTCOMES, Failure, MirrorItem, MirrorPlan, MirrorReport
from .units import Expansion, expand
from .work import Unit, Worker, failure, way_of


def workers_of(job: Job, options: RunOptions) -> int:
    """Return the number of tags that are processed at the same time."""
    return options.workers or job.parallel or workers_by_default(options.executor)


def mirror_run(
    job: str | os.PathLike[str] | Job,
    options: RunOptions = RunOptions(),
    *,
    plan: MirrorPlan | None = None,
    executor: Executor | None = None,
    entries: Collection[int] | None = None,
    journal: str | os.PathLike[str] | None = None,
    on_item: Callable[[MirrorItem], None] | None = None,
    on_interrupt: Callable[[MirrorReport], None] | None = None,
    progress: Progress | None = None,
) -> MirrorReport:
    """Bring the targets of a job in sync with their sources.

    A tag that fails does not keep the others from being done; the report says what failed and why. Whatever was
    interrupted, the same call resumes: the targets are asked what they have.

    Args:
        job: The job file.
        options: How it is run.
        plan: From `mirror_plan`: exactly this is done, and nothing else.
        executor: Where the work is done; threads of this process by default. For another one, each worker reads the
            job file's text, which it is sent, with the environment that it has.
        entries: Numbers of the `sync` entries that are run; None is all of them.
        journal: File with the notes of earlier runs; None keeps none.
        on_item: Called with each tag as it is done, in the order in which they are.
        on_interrupt: Called with the report of what is done when KeyboardInterrupt ends the run, which is raised after
            that.
        progress: Receives progress events.

    Returns:
        The report.

    Raises:
        SourceError: the job file cannot be read.
        FormatError: it is not valid.
        UsageError: the plan is one of another job, or there is one for a shard.
        DestinationError: the journal cannot be written, or is in use.
    """
    loaded = job if isinstance(job, Job) else Job.load(job)
    if plan is not None and plan.job_digest != loaded.digest:
        raise UsageError(
            f"the plan was made from another {plan.job} than {loaded.path} is now",
            hint="make a new plan with 'ocibridge mirror plan'",
        )
    with MirrorJournal(None if journal is None else Path(journal)) as notes:
        run = _Run(loaded, options, notes, on_item, progress or Progress())
        try:
            return run.do(plan, executor, entries)
        except KeyboardInterrupt:
            if on_interrupt is not None:
                on_interrupt(run.report(interrupted=True))
            raise


class _Run:
    def __init__(
        self,
        job: Job,
        options: RunOptions,
        journal: MirrorJournal,
        on_item: Callable[[MirrorItem], None] | None,
        progress: Progress,
    ) -> None:
        self._job = job
        self._options = options
        self._journal = journal
        self._on_item = on_item
        self._progress = progress
        self._workers = workers_of(job, options)
        self._ways = [way_of(entry) for entry in job.entries]
        self._started, self._clock = now(), time.monotonic()
        self._units: int | None = None
        self._items = ItemList(MirrorItem)
        self._warnings = [*job.warnings]
        self._failed: set[str] = set()
        self._resumed = 0

    def do(self, plan: MirrorPlan | None, executor: Executor | None, entries: Collection[int] | None) -> MirrorReport:
        worker = Worker(self._job, self._journal.blob, self._progress, self._journal.blobs)
        try:
            if plan is None:
                work = expand(self._job, worker.pool, self._options.shard, entries, worker.listed)
            else:
                work = _planned(plan, self._options)
            self._units = len(work.units)
            self._warnings += work.warnings
            for item in work.failures:
                self._add(-1, item)
            units = ((number, self._with_journal(unit)) for number, unit in enumerate(work.units))
            self._progress.plan("mirroring", len(work.units), 0)
            if executor is None:
                with ThreadPoolExecutor(self._workers, thread_name_prefix="ocibridge-mirror") as pool:
                    self._work(units, pool, worker)
            else:
                self._work(units, executor, worker)
            self._prune(work, plan, worker)
            self._journal.finish()
        except BaseException:
            worker.interrupt()
            raise
        finally:
            self._warnings += worker.pool.warnings()
            worker.close()
        return self.report()

    def _with_journal(self, unit: Unit) -> Unit:
        known = self._journal.known(unit.target, self._ways[unit.entry])
        return replace(unit, known=known, full=self._options.full)

    def _work(self, units: Iterable[tuple[int, Unit]], executor: Executor, worker: Worker) -> None:
        try:
            with closing(self._done(units, executor, worker)) as done:
                for (number, unit), future in done:
                    item = _result(unit, future)
                    if not isinstance(executor, ThreadPoolExecutor):
                        # What happens elsewhere is heard of when it is over.
                        task = Task("mirroring", unit.target, 0)
                        self._progress.start(task)
                        self._progress.finish(task, item.outcome)
                    self._note(unit, item)
                    self._add(number, item)
                    if item.outcome == "failed" and self._options.abort_on_error:
                        break
        except BaseException:
            # Threads that wait for a host would keep the executor from ending.
            worker.interrupt()
            raise

    def _done(
        self, units: Iterable[tuple[int, Unit]], executor: Executor, worker: Worker
    ) -> Generator[tuple[tuple[int, Unit], Future[MirrorItem]], None, None]:
        if isinstance(executor, ThreadPoolExecutor):
            return each_done(executor, lambda each: worker.run(each[1]), units, self._workers)
        return each_done(executor, RemoteWork.of(self._job), units, self._workers)

    def _note(self, unit: Unit, item: MirrorItem) -> None:
        if item.outcome == "failed":
            self._journal.forget(unit.target)
        elif item.digest:
            if item.reason == IN_SYNC and unit.target in self._journal.unfinished:
                self._resumed += 1
            if item.outcome == "copied" or item.reason == IN_SYNC:
                source = item.source_digest or item.digest
                self._journal.done(unit.target, source, item.digest, self._ways[unit.entry])

    def _prune(self, work: Expansion, plan: MirrorPlan | None, worker: Worker) -> None:
        failed = self._failed
        if failed and self._options.abort_on_error:
            return
        if plan is not None:
            planned = [unless_failed(item, failed) for item in plan.items if item.action in ("prune", "keep")]
            found = still_to_prune(planned, worker.pool)
        else:
            found = pruning(places_of(self._job, work), failed, worker.pool)
        for item in prune(found, self._job.entries, worker.pool):
            self._add(len(work.units), item)

    def _add(self, number: int, item: MirrorItem) -> None:
        self._items.add(item, number)
        if item.outcome == "failed":
            self._failed.add(repository_of(item.target))
        if self._on_item:
            self._on_item(item)

    def report(self, *, interrupted: bool = False) -> MirrorReport:
        """The report of what is done; computed from the items, as an interruption can come between any two steps."""
        totals, warnings = Moves(), dict.fromkeys(self._warnings)
        counts = Counter(dict.fromkeys(OUTCOMES, 0))
        reached = 0
        for item in self._items:
            totals = Moves.sum([totals, item.moves])
            counts[item.outcome] += 1
            warnings.update(dict.fromkeys(item.warnings))
            reached += item.source is not None and not item.listing
        shard = self._options.shard
        return MirrorReport(
            job=str(self._job.path),
            job_digest=self._job.digest,
            started=rfc3339(self._started),
            seconds=time.monotonic() - self._clock,
            host=platform.node(),
            executor=self._options.executor,
            workers=self._workers,
            shard=None if shard is None else str(shard),
            resumed=self._resumed,
            interrupted=interrupted,
            remaining=None if self._units is None else self._units - reached,
            items=self._items,
            totals=totals,
            counts=counts,
            warnings=list(warnings),
        )


def _planned(plan: MirrorPlan, options: RunOptions) -> Expansion:
    """The work of a plan: what was in sync when it was made is left alone."""
    if options.shard is not None:
        raise UsageError("a plan is executed whole", hint="make a plan for each shard: 'ocibridge mirror plan --shard'")
    units = [
        Unit(item.entry, item.source, item.target, item.digest, item.replaces)
        for item in plan.items
        if item.action == "copy" and item.source
    ]
    return Expansion(units=tuple(units))


def _result(unit: Unit, future: Future[MirrorItem]) -> MirrorItem:
    try:
        return future.result()
    except OcibridgeError as exc:
        found = failure(exc)
    except Exception as exc:  # noqa: BLE001 - whatever an executor raises where a worker has died
        found = Failure(
            type=type(exc).__name__,
            message=f"the worker ended while it was at {unit.target}",
            hint="run the same command again to resume",
        )
    return MirrorItem(entry=unit.entry, outcome="failed", source=unit.source, target=unit.target, error=found)
