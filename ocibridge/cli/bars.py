# SPDX-License-Identifier: Apache-2.0
"""Bars on a terminal, drawn by rich."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Column, Table
from rich.text import Text

from ..errors import human_size
from ..transfer import Task
from .counts import Counts
from .output import human_time, printable

MOST = 8
"""Tasks on the screen; the others are a number."""
_NAME, _BAR, _PERCENT, _GAP = 26, 20, 4, 2
"""Least widths of a name and of a bar, width of a percentage, and the space between."""
_DIGEST = re.compile(r"(sha256:[0-9a-f]{12})[0-9a-f]{52}")


class Bars(Counts):
    """A bar per running task and one for the phase; cleared at the end, so that only the result stays.

    Args:
        console: Where to draw; standard error by default.
        clock: See `Counts`.
    """

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock)
        self._console = console or Console(stderr=True)
        self._live = Live(
            get_renderable=self.render,
            console=self._console,
            refresh_per_second=10,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def plan(self, phase: str, tasks: int, size: int) -> None:
        """See `Progress`."""
        super().plan(phase, tasks, size)
        if tasks:
            self._live.start()

    def render(self) -> RenderableType:
        """The bars at this moment."""
        now = self.snapshot()
        rows = [
            _Shown(_name(task), done, size, indent=2 * bool(task.part_of)) for task, done, size in now.running[:MOST]
        ]
        last = _Shown(f"{now.phase} {now.finished} of {now.tasks}", now.done, now.size, now.finished, now.tasks)
        left = now.seconds_left
        speed = f"{human_size(now.rate)}/s" + (f", {human_time(left)} left" if left is not None else "")
        hidden = len(now.running) - MOST
        more = [Text(f"… and {hidden} more", style="dim")] if hidden > 0 else []
        return Group(_table([*rows, last], self._console.width), *more, Text(speed, style="dim"))

    def note(self, text: str) -> None:
        """See `Counts`."""
        self._console.print(Text(f"ocibridge: {printable(text)}"), soft_wrap=True)

    def close(self) -> None:
        """Clear the screen."""
        self._live.stop()


class _Shown(NamedTuple):
    """A line of the table: bytes, and where nobody knows how many there will be, what else the bar may show."""

    name: str
    done: int
    size: int
    finished: int = 0
    tasks: int = 0
    indent: int = 0

    @property
    def amount(self) -> str:
        if self.size:
            return f"{human_size(self.done)} of {human_size(self.size)}"
        # A tag whose blobs another one brings has nothing to say.
        return f"{human_size(self.done)} moved" if self.done or self.tasks else ""

    @property
    def share(self) -> float | None:
        done, size = (self.done, self.size) if self.size else (self.finished, self.tasks)
        return min(done / size, 1.0) if size else None


def _table(rows: Sequence[_Shown], width: int) -> Table:
    """Names, bars and amounts; in a narrow window percentages instead of bars, in a very narrow one nothing else."""
    rest = width - max(len(row.amount) for row in rows) - 2 * _GAP
    amounts, bars = rest >= _PERCENT + _NAME, rest >= _BAR + _NAME
    if not amounts:
        rest = width - _GAP
    longest = max(row.indent + len(row.name) for row in rows)
    name = max(1, min(longest, rest - (_BAR if bars else _PERCENT)))
    bar = min(rest - name, 2 * _BAR) if bars else _PERCENT
    table = Table.grid(
        Column(width=name), Column(width=bar), Column(no_wrap=True, justify="right"), padding=(0, _GAP, 0, 0)
    )
    for row in rows:
        style = "bold" if row is rows[-1] else ""
        cells = [
            Text(" " * row.indent + _cut(row.name, name - row.indent), style=style),
            _bar(row.share, bar) if bars else _percent(row.share),
        ]
        table.add_row(*cells, Text(row.amount) if amounts else "")
    return table


def _bar(share: float | None, width: int) -> RenderableType:
    return "" if share is None else ProgressBar(total=1.0, completed=share, width=width)


def _percent(share: float | None) -> RenderableType:
    return "" if share is None else Text(f"{share:4.0%}")


def _name(task: Task) -> str:
    """The name of a task; of a digest, the beginning is enough."""
    found = _DIGEST.fullmatch(task.label)
    return f"{found[1]}…" if found else printable(task.label)


def _cut(text: str, width: int) -> str:
    """The end of what is too long, which tells paths and tags apart."""
    return text if len(text) <= width else f"…{text[1 - width :]}" if width > 1 else "…"
