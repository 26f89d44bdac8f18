# SPDX-License-Identifier: Apache-2.0
"""Bars on a terminal, drawn by rich."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Column, Table
from rich.text import Text

from ..errors import human_size
from .counts import Counts
from .output import human_time, printable

MOST = 8
"""Tasks on the screen; the others are a number."""


class Bars(Counts):
    """A bar per running task and one for the phase; cleared at the end, so that only the result stays.

    Args:
        console: Where to draw; standard error by default.
        clock: See `Counts`.
    """

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock)
        self._live = Live(
            get_renderable=self.render,
            console=console or Console(stderr=True),
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
        table = Table.grid(
            Column(no_wrap=True, overflow="ellipsis", max_width=40),
            Column(width=24),
            Column(justify="right", no_wrap=True),
            padding=(0, 2, 0, 0),
        )
        for task, done in now.running[:MOST]:
            table.add_row(Text(printable(task.label)), _bar(done, task.size), _amount(done, task.size))
        left = now.seconds_left
        speed = f"{human_size(now.rate)}/s" + (f", {human_time(left)} left" if left is not None else "")
        table.add_row(
            Text(f"{now.phase} {now.finished} of {now.tasks}", style="bold"),
            _bar(now.done, now.size) if now.size else _bar(now.finished, now.tasks),
            _amount(now.done, now.size),
        )
        hidden = len(now.running) - MOST
        more = [Text(f"… and {hidden} more", style="dim")] if hidden > 0 else []
        return Group(table, *more, Text(speed, style="dim"))

    def note(self, text: str) -> None:
        """See `Counts`."""
        self._live.console.print(Text(f"ocibridge: {printable(text)}"), soft_wrap=True)

    def close(self) -> None:
        """Clear the screen."""
        self._live.stop()


def _bar(done: int, size: int) -> ProgressBar:
    return ProgressBar(total=max(size, 1), completed=min(done, size) if size else 1, width=24)


def _amount(done: int, size: int) -> Text:
    return Text(f"{human_size(done)} of {human_size(size)}" if size else f"{human_size(done)} moved")
