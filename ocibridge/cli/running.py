# SPDX-License-Identifier: Apache-2.0
"""Run a command and print its report: warnings, a summary, the result; or JSON."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

from .output import human_time, results, say, warn

if TYPE_CHECKING:
    from ..transfer import Progress


class PrintableReport(Protocol):
    """A report that can be printed."""

    def json_pieces(self) -> Iterator[str]:
        """The report as JSON, in whole lines."""
        ...


@runtime_checkable
class Warned(Protocol):
    """A report that may have warnings."""

    @property
    def warnings(self) -> Sequence[str]:
        """One sentence each."""
        ...


R = TypeVar("R", bound=PrintableReport)


def perform(
    args: argparse.Namespace,
    operation: Callable[[Progress], R],
    lines: Callable[[R], Iterable[str]],
    summary: Callable[[R], str] | None = None,
    *,
    at_the_end: bool = False,
) -> R:
    """Do something that takes a while, show how far it is, and print its report.

    Args:
        args: The arguments.
        operation: What is done; it is given what shows the progress.
        lines: What goes to standard output.
        summary: Makes the summary, which is printed with the time unless --quiet is given.
        at_the_end: Whether the summary comes after the lines.
    """
    from .progress import shown

    started = time.monotonic()
    with shown(args) as progress:
        report = operation(progress)
    text = ""
    if summary and not (args.quiet or args.json):
        text = f"{summary(report)}, in {human_time(time.monotonic() - started)}"
    show(args, report, lines, "" if at_the_end else text)
    if at_the_end and text:
        say(text, "summary")
    return report


def show(args: argparse.Namespace, report: R, lines: Callable[[R], Iterable[str]], summary: str = "") -> None:
    """Print a report: its warnings, the summary and its lines, or its JSON.

    Args:
        args: The arguments.
        report: What an operation returned.
        lines: What goes to standard output.
        summary: The summary, printed first.
    """
    if args.json:
        results(report.json_pieces())
        return
    if isinstance(report, Warned):
        warn(report.warnings)
    if summary:
        say(summary, "summary")
    results(lines(report))
