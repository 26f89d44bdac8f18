# SPDX-License-Identifier: Apache-2.0
"""The benchmark of very many small files measures each command that reads a model, and its bars are the bars."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.files import COMMANDS, files_bars, files_page
from benchmarks.measure import Row, Run
from ocibridge.cli import main

MiB = 1024 * 1024
RUN = Run(wall=1.0, user=0.5, system=0.25, server=0.25, rss=50 * MiB, disk=100 * MiB, read=7 * MiB)
ROWS = [Row(line, "ocibridge", RUN, 1.0, 1.0) for line in COMMANDS]


def changed(start: str, run: Run) -> list[Row]:
    return [replace(row, run=run) if row.measure.startswith(start) else row for row in ROWS]


@pytest.mark.parametrize(
    ("start", "run", "missed"),
    [
        ("nothing", RUN, []),
        ("inspect HOST", replace(RUN, rss=121 * MiB), ["peak RSS, all commands"]),
        ("verify made.carton", replace(RUN, wall=3.1), ["verify made.carton"]),
        ("push folder oci:", replace(RUN, wall=0.3), ["verify folder"]),
    ],
)
def test_bars(start: str, run: Run, missed: list[str]) -> None:
    rows = changed(start, run)
    assert [bar.measure for bar in files_bars(rows) if not bar.holds] == missed
    page = files_page(rows, 20_000, {"memory": "1 GiB"}, "Once.")
    assert all(f"| `{line}` |" in page for line in COMMANDS)
    assert page.count("**does not hold**") == len(missed)


def test_every_command_that_reads_a_model_is_measured() -> None:
    others = {"tags", "ls", "tag", "rm", "login", "config", "completion", "version"}
    assert set(main.COMMANDS) - {line.split()[0] for line in COMMANDS} == others
