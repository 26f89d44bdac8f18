# SPDX-License-Identifier: Apache-2.0
"""Results on standard output, everything else on standard error."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Literal

# Controls, and the marks that reorder text: nothing that a registry or an archive says may steer the terminal.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """`text` on one line, with everything escaped that a terminal would obey."""
    return _UNSAFE.sub(lambda found: repr(found[0])[1:-1], text)


def human_time(seconds: float) -> str:
    """A duration for people.

    Example:
        >>> human_time(75)
        '1 min 15 s'
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def columns(rows: Iterable[Sequence[str]], indent: str = "  ") -> list[str]:
    """Rows as aligned text. Plain on purpose: nothing is cut at the edge of the screen, and `grep` and `awk` work."""
    table = list(rows)
    return list(aligned(lambda: table, indent))


def aligned(rows: Callable[[], Iterable[Sequence[str]]], indent: str = "  ") -> Iterator[str]:
    """See `columns`; `rows` is called twice, so that very many rows need not be kept."""
    widths: list[int] = []
    for row in rows():
        found = [len(printable(cell)) for cell in row]
        widths = [max(pair) for pair in zip(widths, found, strict=True)] if widths else found
    for row in rows():
        cells = (printable(cell).ljust(width) for cell, width in zip(row, widths, strict=True))
        yield (indent + "  ".join(cells)).rstrip()


def tick() -> str:
    """A check mark, where standard output can show one."""
    try:
        "✓".encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return "ok"
    return "✓"


def result(*lines: str) -> None:
    """Print the result of a command on standard output.

    Raises:
        SystemExit: the reader of a pipe has gone away (status 1, without a message).
        DestinationError: standard output cannot be written.
    """
    text = "".join(line + "\n" for line in lines)
    out = sys.stdout
    if out is None:  # closed by the caller, as `>&-` does
        return
    with _standard_output():
        out.write(text.encode(out.encoding or "utf-8", "backslashreplace").decode(out.encoding or "utf-8"))
        out.flush()


@contextmanager
def _standard_output() -> Iterator[None]:
    """Turn what goes wrong with standard output into the errors of `result`."""
    try:
        yield
    except BrokenPipeError:
        _silence()
        raise SystemExit(1) from None
    except OSError as exc:
        _silence()
        from ..errors import DestinationError

        raise DestinationError(f"cannot write to standard output: {exc.strerror}") from exc


def result_bytes(data: bytes | memoryview) -> None:
    """Print bytes on standard output as they are; see `result`."""
    out = sys.stdout
    if out is None:
        return
    with _standard_output():
        out.flush()
        out.buffer.write(data)
        out.buffer.flush()


def results(lines: Iterable[str]) -> None:
    """Print very many lines as `result` does, a batch at a time."""
    left = iter(lines)
    while batch := list(islice(left, 500)):
        result(*batch)


def _silence() -> None:
    # What is still buffered must not fail a second time when the interpreter exits.
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


_as_events = False


def say_as_events(on: bool) -> None:
    """Print sentences as events from now on, as `--progress json` wants all of standard error, or as text."""
    global _as_events
    _as_events = on


def say(message: str, kind: Literal["note", "warning", "summary"] = "note") -> None:
    """Print one `ocibridge: …` line on standard error, or the event of this kind."""
    if _as_events:
        from ..transfer.events import MessageEvent

        note(MessageEvent(event=kind, text=message).line())
    else:
        note(f"ocibridge: {'warning: ' if kind == 'warning' else ''}{printable(message)}")


def note(line: str) -> None:
    """Print a line on standard error; where nobody listens, that is no failure."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


def losses(found: Iterable[str]) -> None:
    """Say what a target cannot express, before anything is written."""
    warn(f"not carried over: {each}" for each in found)


def warn(warnings: Iterable[str]) -> None:
    """Print the warnings of a report on standard error."""
    for warning in warnings:
        say(warning, "warning")
