# SPDX-License-Identifier: Apache-2.0
"""Plans and runs of mirror jobs, for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ..errors import human_size, number
from .output import aligned, columns

if TYPE_CHECKING:
    from ..mirror.reports import Failure, MirrorItem, MirrorPlan, MirrorReport
    from ..report import Moves


def plan_lines(plan: MirrorPlan, word: str, *, quiet: bool = False) -> Iterator[str]:
    """Format a plan: a line for each tag that is not in sync, and the sums, which begin with `word`.

    Args:
        plan: A plan.
        word: `plan` or `check`.
        quiet: Only what failed.
    """

    def rows() -> Iterator[Sequence[str]]:
        for item in plan.items:
            if item.action != "skip":
                arrow = "->" if item.source else ""
                yield item.action, item.source or "", arrow, item.target, _reason(item.reason, item.moves)

    if not quiet:
        yield from aligned(rows)
    failures = [("failed", each.source or "", "->", each.target, _sentence(each.error)) for each in plan.failures]
    yield from columns(failures)
    if quiet:
        return
    counts = plan.counts
    parts = [f"{counts['copy']} to copy" + (f" ({_bytes(plan.totals)})" if _moves(plan.totals) else "")]
    parts += _skipped(item.reason for item in plan.items if item.action == "skip")
    for action, words in (("prune", "to prune"), ("keep", "kept that the source does not have")):
        if counts[action]:
            parts.append(f"{counts[action]} {words}")
    if plan.failures:
        parts.append(f"{counts['failed']} failed")
    yield f"{word}: " + ", ".join(parts)


def run_lines(report: MirrorReport, *, quiet: bool = False) -> Iterator[str]:
    """A line for each tag with which something was done, and at the end for each with which something went wrong.

    Args:
        report: Of a run.
        quiet: Only what failed.
    """

    def rows() -> Iterator[Sequence[str]]:
        for failed in (True,) if quiet else (False, True):
            for item in report.items:
                if item.outcome != "skipped" and (item.outcome == "failed") is failed:
                    yield _cells(item)

    return aligned(rows, indent="")


def item_line(item: MirrorItem) -> str:
    """One tag on one line, for logs."""
    return " ".join(filter(None, _cells(item)))


def _cells(item: MirrorItem) -> Sequence[str]:
    also = "".join(f", also {each}" for each in item.also)
    why = _sentence(item.error) if item.error else _reason(item.reason, item.moves) + also
    return item.outcome, item.source or "", "->" if item.source else "", item.target, why


def summary(report: MirrorReport) -> str:
    """Format the summary: the number of tags by outcome, and the bytes that were not transferred."""
    counts = report.counts
    parts = [f"{counts['copied']} copied"] if counts["copied"] else []
    parts += _skipped(item.reason for item in report.items if item.outcome == "skipped")
    parts += [f"{counts[outcome]} {outcome}" for outcome in ("pruned", "kept", "failed") if counts[outcome]]
    if report.remaining is None or report.remaining:
        parts.append("not all tags were listed" if report.remaining is None else f"{report.remaining} left to do")
    totals = report.totals
    moved = f"{human_size(totals.copied_bytes)} moved"
    saved = totals.mounted_bytes + totals.present_bytes
    saved_blobs = ((totals.mounted, "mounted"), (totals.present, "there already"))
    if saved:
        how = [f"{count} {word}" for count, word in saved_blobs if count]
        moved += f", {human_size(saved)} did not have to (blobs: {', '.join(how)})"
    resumed = f"; a run that was interrupted had done {report.resumed} of them" if report.resumed else ""
    word = "interrupted" if report.interrupted else "mirrored"
    text = ", ".join(parts) or "nothing to do"
    # What unfinished tags have moved is not in the totals.
    return f"{word}: {text}" if report.interrupted and not counts["copied"] else f"{word}: {text}; {moved}{resumed}"


def _skipped(reasons: Iterable[str]) -> list[str]:
    """Tags that need nothing, and tags that nobody wants: not the same to whoever looks for one of them."""
    from ..mirror.reports import IN_SYNC

    numbers = Counter(reason == IN_SYNC for reason in reasons)
    found = [f"{numbers[True]} in sync"] if numbers[True] else []
    return [*found, f"{numbers[False]} left out by the filter for models"] if numbers[False] else found


def _reason(reason: str, moves: Moves) -> str:
    return f"{reason} ({_bytes(moves)})" if _moves(moves) else reason


def _moves(moves: Moves) -> bool:
    return bool(moves.copied or moves.mounted)


def _bytes(moves: Moves) -> str:
    parts = []
    if moves.copied:
        parts.append(f"{number(moves.copied, 'blob')}, {human_size(moves.copied_bytes)}")
    if moves.mounted:
        parts.append(f"{moves.mounted} mounted, {human_size(moves.mounted_bytes)}")
    return "; ".join(parts)


def _sentence(problem: Failure) -> str:
    return problem.message + (f"; {problem.hint}" if problem.hint else "")
