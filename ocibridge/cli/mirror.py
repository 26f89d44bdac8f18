# SPDX-License-Identifier: Apache-2.0
"""`ocibridge mirror`: many models, kept in sync."""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import FormatError, OcibridgeError, StoreError, UsageError, number
from ..mirror.options import MirrorOptions, RunOptions, ShardOptions
from ..mirror.shards import Shard
from ..options import Options, shared
from . import options
from .mirrored import item_line, plan_lines, run_lines, summary
from .output import say, warn
from .running import perform, show

if TYPE_CHECKING:
    from ..mirror.jobs.job import Job
    from ..mirror.reports import MirrorItem, MirrorPlan, MirrorReport
    from ..transfer import Progress

_EXAMPLE = "ocibridge mirror {} job.yaml"

_REPORT_MARKS = {".json": b"urn:ocibridge:schema:mirror-report", ".html": b'<meta name="generator" content="ocibridge/'}
"""By suffix, what a report says of itself in its first bytes."""

_YOUNG = 5_000
"""Objects that are made before the garbage collector looks at them; see `ocibridge.cli.main`."""


def add(commands: options.Commands[Any]) -> None:
    """Declare the command and its own commands."""
    parser = options.add_command(
        commands,
        "mirror",
        "Keep registries and layouts in sync, as a job file says.",
        [_EXAMPLE.format(word) for word in ("plan", "run", "check")],
        see="mirror.md",
    )
    parts = options.add_commands(parser)
    _add_run(parts)
    _add_plan(parts)
    _add_check(parts)


def _add_run(commands: options.Commands[Any]) -> None:
    parser = options.add_command(
        commands,
        "run",
        "Copy what is missing at the targets of a job.",
        _EXAMPLE.format("run"),
        "run the same command again to resume",
    )
    parser.set_defaults(run=_run)
    _add_job(parser, RunOptions)
    parser.add_argument("--plan", type=Path, metavar="FILE", help="do exactly what this plan says ('mirror plan')")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="of a Dask cluster, such as tcp://10.0.0.1:8786")
    parser.add_argument(
        "--follow", action="store_true", help="run again and again, at the 'interval' or 'schedule' of each entry"
    )
    group = parser.add_argument_group("reports")
    group.add_argument(
        "--report",
        action="append",
        type=Path,
        default=[],
        metavar="FILE",
        help="write the report to FILE.json, or as a page to FILE.html (may be given several times)",
    )
    group.add_argument("--metrics", type=Path, metavar="FILE", help="write metrics for node-exporter to FILE.prom")
    group.add_argument("--push-gateway", metavar="URL", help="send metrics to a Prometheus push gateway")
    group.add_argument(
        "--metrics-name", metavar="NAME", help="label 'mirror' of the metrics (default: name of the job file)"
    )


def _add_plan(commands: options.Commands[Any]) -> None:
    parser = options.add_command(
        commands, "plan", "Say what a run would do, and change nothing.", _EXAMPLE.format("plan")
    )
    parser.set_defaults(run=_plan)
    _add_job(parser, MirrorOptions)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the plan for 'mirror run --plan'")


def _add_check(commands: options.Commands[Any]) -> None:
    parser = options.add_command(
        commands,
        "check",
        "Check a job file, and every blob at its targets; the status is 0 only where nothing is missing.",
        _EXAMPLE.format("check"),
    )
    parser.set_defaults(run=_check)
    _add_job(parser, ShardOptions, journal=False)


def _add_job(parser: options.Parser, kind: type[Options], *, journal: bool = True) -> None:
    parser.add_argument("job", metavar="JOB", help="the job file (docs/mirror-job.md), or - for standard input")
    options.add_flags(parser, kind, progress=True, registry=False)
    if journal:
        group = parser.add_mutually_exclusive_group()
        group.add_argument(
            "--journal", type=Path, metavar="FILE", help="notes of earlier runs (default: one for each job and user)"
        )
        group.add_argument("--no-journal", action="store_true", help="neither use nor keep notes")


def _run(args: argparse.Namespace) -> None:
    from ..mirror.executors import executor_of
    from ..mirror.run import mirror_run, workers_of

    job = _load(args)
    chosen = options.options_of(args, RunOptions)
    _check_reports(args)
    if args.follow and args.plan:
        raise UsageError("a plan is executed once, and --follow never ends", hint="leave out one of the two")
    plan = _read_plan(args.plan) if args.plan else None

    def once(entries: frozenset[int] | None = None) -> MirrorReport:
        stopped: list[MirrorReport] = []

        def run(progress: Progress) -> MirrorReport:
            with executor_of(chosen.executor, workers_of(job, chosen), args.scheduler) as executor:
                return mirror_run(
                    job,
                    chosen,
                    plan=plan,
                    executor=executor,
                    entries=entries,
                    journal=_journal(args, job, chosen.shard),
                    on_item=_teller(progress),
                    on_interrupt=stopped.append,
                    progress=progress,
                )

        try:
            report = perform(args, run, partial(run_lines, quiet=args.quiet), summary, at_the_end=True)
        except KeyboardInterrupt:
            for report in stopped:
                _say_interrupted(args, report)
            raise
        _write_reports(args, report)
        return report

    if args.follow:
        from ..mirror.follow import follow

        follow(job, once, say)
        return
    report = once()
    if failed := report.counts["failed"]:
        raise StoreError(
            f"{failed} of {len(report.items)} could not be brought in sync",
            hint="the output says why; correct that, run the same command again, which resumes these",
        )


def _say_interrupted(args: argparse.Namespace, report: MirrorReport) -> None:
    """Print and write what an interrupted run has done; nothing of that changes its status."""
    try:
        show(args, report, partial(run_lines, quiet=args.quiet))
        if not (args.quiet or args.json):
            say(summary(report), "summary")
        _write_reports(args, report)
    except OcibridgeError as exc:
        warn([exc.message])


def _plan(args: argparse.Namespace) -> None:
    from ..io.atomic import check_replaceable, write_pieces

    if args.output:
        check_replaceable(args.output, b"urn:ocibridge:schema:mirror-plan", "plan of a mirror job")
    chosen = options.options_of(args, MirrorOptions)
    job = _load(args)
    plan = _planned(args, job, chosen, _journal(args, job, chosen.shard), "plan")
    if args.output:
        write_pieces(args.output, (f"{piece}\n".encode() for piece in plan.json_pieces()))
    _unless_failed(plan)


def _check(args: argparse.Namespace) -> None:
    chosen = shared(MirrorOptions, options.options_of(args, ShardOptions), full=True)
    plan = _planned(args, _load(args), chosen, None, "check")
    _unless_failed(plan)
    if behind := plan.counts["copy"]:
        raise StoreError(
            f"{number(behind, 'tag')} {'is' if behind == 1 else 'are'} not in sync",
            hint=f"run 'ocibridge mirror run {args.job} --full'",
        )


def _load(args: argparse.Namespace) -> Job:
    """The job; several mistakes in its file are printed on one line each."""
    # Requests leave cycles behind, and a job may send very many.
    gc.set_threshold(_YOUNG)
    from ..mirror.files import STDIN, read_job
    from ..mirror.jobs.yamlfile import YamlError

    try:
        return read_job(args.job)
    except YamlError as exc:
        if args.json or len(exc.problems) == 1:
            raise
        for problem in exc.problems:
            say(problem)
        name = STDIN if args.job == "-" else args.job
        raise FormatError(f"there are {len(exc.problems)} mistakes in {name}", hint="they stand above") from None


def _planned(args: argparse.Namespace, job: Job, chosen: MirrorOptions, journal: Path | None, word: str) -> MirrorPlan:
    from ..mirror.plan import mirror_plan

    plan = perform(
        args,
        lambda progress: mirror_plan(job, chosen, journal=journal, progress=progress),
        lambda plan: plan_lines(plan, word, quiet=args.quiet),
    )
    if not args.json:
        warn(job.warnings)
    return plan


def _unless_failed(plan: MirrorPlan) -> None:
    if plan.failures:
        raise StoreError(f"{len(plan.failures)} could not be looked at", hint="the output says why")


def _read_plan(path: Path) -> MirrorPlan:
    from ..mirror.files import read_plan

    return read_plan(path)


def _journal(args: argparse.Namespace, job: Job, shard: Shard | None) -> Path | None:
    if args.no_journal:
        return None
    if args.journal is not None:
        from ..mirror.journal import MirrorJournal

        MirrorJournal.check_place(args.journal)
        return Path(args.journal)
    from ..mirror.files import journal_path

    return journal_path(job.digest if args.job == "-" else args.job, shard)


def _teller(progress: Progress) -> Callable[[MirrorItem], None] | None:
    """Says each tag as it is done; above bars, only what failed."""
    from ..mirror.reports import TagEvent
    from .progress import JsonLines, PlainLines

    if isinstance(progress, JsonLines):
        return lambda item: progress.event(TagEvent(tag=item))
    if isinstance(progress, PlainLines):
        return lambda item: progress.note(item_line(item))
    from .counts import Counts

    if isinstance(progress, Counts):
        return lambda item: progress.note(item_line(item)) if item.outcome == "failed" else None
    return None


def _check_reports(args: argparse.Namespace) -> None:
    """Check before a run, which may take hours, that the reports can be written."""
    from ..io.atomic import check_replaceable

    for path in args.report:
        if path.suffix not in _REPORT_MARKS:
            raise UsageError(f"the report {path} is neither .json nor .html", hint="name it with one of the two")
        check_replaceable(path, _REPORT_MARKS[path.suffix], "report of a mirror run")
    if args.metrics or args.push_gateway:
        from ..mirror.output.metrics import check_metrics

        check_metrics(args.metrics, args.push_gateway)
    elif args.metrics_name:
        raise UsageError("--metrics-name names what is not asked for", hint="add --metrics or --push-gateway")


def _write_reports(args: argparse.Namespace, report: MirrorReport) -> None:
    """Write all reports, even if one fails; the last failure is raised, the others are printed."""
    problem: OcibridgeError | None = None
    for write in _writers(args, report):
        try:
            write()
        except OcibridgeError as exc:
            if problem:
                warn([problem.message])
            problem = exc
    if problem:
        raise problem


def _writers(args: argparse.Namespace, report: MirrorReport) -> Iterator[Callable[[], None]]:
    from ..io.atomic import write_pieces

    for path in args.report:
        if path.suffix == ".json":
            yield partial(write_pieces, path, (f"{piece}\n".encode() for piece in report.json_pieces()))
        else:
            from ..mirror.output.html import page_pieces

            yield partial(write_pieces, path, (piece.encode() for piece in page_pieces(report)))
    if args.metrics:
        from ..mirror.output.metrics import write_textfile

        yield partial(write_textfile, report, args.metrics, name=args.metrics_name)
    if args.push_gateway:
        from ..mirror.output.metrics import push_gateway

        yield partial(push_gateway, report, args.push_gateway, name=args.metrics_name)
