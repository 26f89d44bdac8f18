# SPDX-License-Identifier: Apache-2.0
"""What a recorded transfer looks like in each way of showing it."""

from __future__ import annotations

import argparse
import io
import json
import logging
import re
import sys
import threading
import time
from datetime import datetime
from typing import Any

import pytest
from rich.console import Console

from ocibridge.about import USER_AGENT
from ocibridge.cli.bars import Bars
from ocibridge.cli.counts import Counts, Running
from ocibridge.cli.progress import JsonLines, PlainLines, shown
from ocibridge.transfer import Progress, Task
from ocibridge.transfer.progress import Within

MiB = 1024 * 1024
WEIGHT = Task("uploading", "model/weights.bin", 100 * MiB)
SMALL = Task("uploading", "config.json", MiB)
KNOWN = Task("uploading", "old.bin", 99 * MiB)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def play(progress: Counts, clock: Clock) -> None:
    """Ten seconds into an upload of three layers, one of them skipped, with bytes sent again."""
    progress.plan("hashing", 0, 0)
    progress.plan("uploading", 3, 200 * MiB)
    progress.finish(KNOWN, "skipped")
    progress.start(WEIGHT)
    progress.start(SMALL)
    progress.advance(SMALL, MiB)
    progress.finish(SMALL, "done")
    progress.snapshot()
    clock.now = 4.0
    progress.advance(WEIGHT, 60 * MiB)
    progress.snapshot()
    clock.now = 10.0
    progress.advance(WEIGHT, -20 * MiB)
    progress.advance(WEIGHT, 10 * MiB)


def test_counts() -> None:
    clock = Clock()
    counts = Counts(clock)
    play(counts, clock)
    now = counts.snapshot()
    assert (now.phase, now.tasks, now.finished) == ("uploading", 3, 2)
    assert (now.done, now.size) == (150 * MiB, 200 * MiB)
    assert now.running == (Running(WEIGHT, 50 * MiB, 100 * MiB),)
    assert now.rate == pytest.approx(-10 * MiB / 6) or now.rate == 0.0
    assert now.seconds_left is None
    counts.finish(WEIGHT, "failed")
    assert counts.snapshot().done == 100 * MiB
    counts.finish(WEIGHT, "failed")
    assert counts.snapshot().running == ()


def test_a_steady_rate_gives_the_time_left() -> None:
    clock = Clock()
    counts = Counts(clock)
    counts.plan("downloading", 1, 100 * MiB)
    task = Task("downloading", "x", 100 * MiB)
    counts.start(task)
    for second in range(1, 21):
        clock.now = float(second)
        counts.advance(task, 2 * MiB)
        now = counts.snapshot()
    assert now.rate == pytest.approx(2 * MiB)
    assert now.seconds_left == pytest.approx(30)


def test_many_threads_lose_nothing() -> None:
    counts = Counts()
    counts.plan("uploading", 8, 8000)

    def work(number: int) -> None:
        task = Task("uploading", str(number), 1000)
        counts.start(task)
        for _ in range(1000):
            counts.advance(task, 1)
        counts.finish(task, "done")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    now = counts.snapshot()
    assert (now.done, now.finished, now.running) == (8000, 8, ())


def untimed(text: str) -> list[str]:
    """Lines without their time, which each of them has."""
    found = [re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ (.*)", line) for line in text.splitlines()]
    return [each[1] if each else "without a time" for each in found]


def test_plain_lines() -> None:
    out, clock = io.StringIO(), Clock()
    lines = PlainLines(out, 1e6, clock)
    play(lines, clock)
    lines.tick()
    clock.now = 11.0
    lines.advance(WEIGHT, 30 * MiB)
    lines.tick()
    lines.advance(WEIGHT, 20 * MiB)
    lines.finish(WEIGHT, "done")
    lines.tick()
    lines.close()
    assert untimed(out.getvalue()) == [
        "ocibridge: uploading old.bin (99.0 MiB): skipped",
        "ocibridge: uploading: 2 of 3, 150.0 MiB of 200.0 MiB (75%), 0 B/s",
        "ocibridge: uploading: 2 of 3, 180.0 MiB of 200.0 MiB (90%), 2.9 MiB/s, 7.0 s left",
        "ocibridge: uploading model/weights.bin (100.0 MiB): done",
    ]


def test_lines_come_by_themselves_and_stop_with_the_block() -> None:
    out = io.StringIO()
    lines = PlainLines(out, 0.01)
    lines.plan("uploading", 1, 10)
    for _ in range(500):
        if out.getvalue():
            break
        threading.Event().wait(0.01)
    lines.close()
    assert untimed(out.getvalue())[0] == "ocibridge: uploading: 0 of 1, 0 B of 10 B (0%), 0 B/s"
    assert not [each for each in threading.enumerate() if each.name == "ocibridge-progress"]


def test_nothing_to_do_starts_no_thread() -> None:
    lines = PlainLines(io.StringIO(), 0.01)
    lines.plan("hashing", 0, 0)
    assert not [each for each in threading.enumerate() if each.name == "ocibridge-progress"]
    lines.close()


def event(line: str) -> dict[str, Any]:
    """An event without what all of them have."""
    found: dict[str, Any] = json.loads(line)
    assert (found.pop("$schema"), found.pop("generator")) == ("urn:ocibridge:schema:event", USER_AGENT)
    assert abs(datetime.fromisoformat(found.pop("time").replace("Z", "+00:00")).timestamp() - time.time()) < 60
    return found


def test_json_lines() -> None:
    out, clock = io.StringIO(), Clock()
    lines = JsonLines(out, 1e6, clock)
    play(lines, clock)
    lines.tick()
    lines.close()
    events = [event(line) for line in out.getvalue().splitlines()]
    assert [each["event"] for each in events] == ["plan", "plan", "finish", "start", "start", "finish", "progress"]
    assert events[2] == {
        "event": "finish", "phase": "uploading", "label": "old.bin", "size": 99 * MiB, "outcome": "skipped",
        "partOf": None,
    }  # fmt: skip
    assert events[-1] == {
        "event": "progress", "phase": "uploading", "tasks": 3, "finished": 2,
        "size": 200 * MiB, "done": 150 * MiB, "rate": 0,
    }  # fmt: skip


def test_a_closed_standard_error_stops_nothing() -> None:
    out = io.StringIO()
    out.close()
    lines = JsonLines(out, 1e6)
    lines.plan("uploading", 1, 1)
    lines.close()


def console(width: int = 100) -> Console:
    return Console(width=width, record=True, force_terminal=True, file=io.StringIO(), color_system=None)


def test_bars() -> None:
    clock, screen = Clock(), console()
    bars = Bars(screen, clock)
    play(bars, clock)
    bars.close()
    screen.print(bars.render())
    text = screen.export_text()
    assert "model/weights.bin" in text
    assert "50.0 MiB of 100.0 MiB" in text
    assert "uploading 2 of 3" in text
    assert "150.0 MiB of 200.0 MiB" in text
    assert "0 B/s" in text


BIG, OTHER = Task("mirroring", "b.example/models/big:v1", 0), Task("mirroring", "b.example/models/other:v1", 0)


def play_tags(progress: Counts, clock: Clock) -> None:
    """Two seconds into a run of two tags that share a blob."""
    progress.plan("mirroring", 2, 0)
    for tag, size in ((BIG, 120 * MiB), (OTHER, 10 * MiB)):
        progress.start(tag)
        within = Within(progress, tag)
        within.plan("copying", 2, size)
        weight = Task("copying", "model.safetensors", 100 * MiB, planned=tag is BIG)
        if tag is BIG:
            within.start(weight)
            clock.now = 2.0
            within.advance(weight, 30 * MiB)
            within.finish(Task("copying", "sha256:" + "ab" * 32, 20 * MiB), "mounted")
        else:
            within.finish(weight, "mounted")


def test_bytes_are_credited_to_tags() -> None:
    clock = Clock()
    counts = Counts(clock)
    play_tags(counts, clock)
    now = counts.snapshot()
    assert [(each.task.label, each.done // MiB, each.size // MiB) for each in now.running] == [
        ("b.example/models/big:v1", 50, 120), ("model.safetensors", 30, 100), ("b.example/models/other:v1", 0, 10),
    ]  # fmt: skip
    assert (now.done, now.size, now.finished) == (50 * MiB, 130 * MiB, 0)
    assert now.seconds_left == pytest.approx(80 / 15)
    counts.finish(OTHER, "failed")
    assert (counts.snapshot().finished, counts.snapshot().done) == (1, 50 * MiB)


def test_a_line_names_the_tags_that_take_long() -> None:
    out, clock = io.StringIO(), Clock()
    lines = PlainLines(out, 1e6, clock)
    play_tags(lines, clock)
    lines.tick()
    lines.close()
    assert untimed(out.getvalue())[-1] == (
        "ocibridge: mirroring: 0 of 2, 50.0 MiB of 130.0 MiB (38%), 15.0 MiB/s, 5.3 s left; "
        "b.example/models/big:v1 (50.0 MiB of 120.0 MiB), b.example/models/other:v1 (0 B of 10.0 MiB)"
    )


@pytest.mark.parametrize("width", [40, 60, 100, 160])
def test_amounts_are_whole_at_every_width(width: int) -> None:
    clock, screen = Clock(), console(width)
    bars = Bars(screen, clock)
    play_tags(bars, clock)
    bars.close()
    screen.export_text()
    screen.print(bars.render())
    big, weight, other, whole, last = screen.export_text().splitlines()
    assert max(map(len, (big, weight, other, whole, last))) <= width
    assert "big:v1" in big
    assert weight.startswith("  ")
    for line, share, amount in ((big, "42%", "50.0 MiB of 120.0 MiB"), (whole, "38%", "50.0 MiB of 130.0 MiB")):
        assert (amount in line) is (width > 40)
        assert (share in line) is (width < 80)
        assert ("━" in line) is (width > 80)
    assert last == "15.0 MiB/s, 5.3 s left"


def test_many_small_layers_do_not_flood_the_screen() -> None:
    screen = console(60)
    bars = Bars(screen)
    bars.plan("verifying", 10_000, 10_000)
    for number in range(50):
        bars.start(Task("verifying", f"folder/a rather long name that does not fit [red]{number}", 1))
    bars.close()
    screen.export_text()
    screen.print(bars.render())
    lines = screen.export_text().splitlines()
    assert len(lines) == 8 + 3
    assert all(len(line) <= 60 for line in lines)
    assert "[red]" in lines[0]
    assert "… and 42 more" in lines


def chosen(progress: str, *, quiet: bool = False, as_json: bool = False) -> type[Progress]:
    with shown(argparse.Namespace(progress=progress, quiet=quiet, json=as_json)) as made:
        return type(made)


def test_the_mode_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert chosen("auto") is PlainLines
    assert chosen("auto", as_json=True) is Progress
    assert chosen("plain", as_json=True) is PlainLines
    assert chosen("json") is JsonLines
    assert chosen("tty") is Bars
    assert chosen("none") is Progress
    assert chosen("tty", quiet=True) is Progress
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    assert chosen("auto") is PlainLines
    monkeypatch.setenv("TERM", "xterm")
    assert chosen("auto") is Bars
    assert chosen("auto", as_json=True) is Bars
    monkeypatch.setattr(sys, "stderr", None)
    assert chosen("auto") is Progress


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("plain", "TIME ocibridge: r.example has sent nothing for 10 s\n"),
        ("json", {"event": "note", "text": "r.example has sent nothing for 10 s"}),
        ("none", ""),
    ],
    ids=["plain", "json", "none"],
)
def test_what_the_package_warns_of_is_shown_while_something_runs(
    mode: str, expected: object, capsys: pytest.CaptureFixture[str]
) -> None:
    log = logging.getLogger("ocibridge")
    with shown(argparse.Namespace(quiet=False, json=False, progress=mode)):
        log.warning("%s has sent nothing for %.0f s", "r.example", 10.0)
    log.warning("nobody watches any more")
    err = capsys.readouterr().err
    assert (event(err) if mode == "json" else re.sub(r"^\S*Z ", "TIME ", err)) == expected


def test_bars_leave_notes_above_them() -> None:
    out = io.StringIO()
    bars = Bars(Console(file=out, force_terminal=True, width=80))
    bars.plan("uploading", 1, MiB)
    bars.note("r.example has sent nothing for 10 s [bold]")
    bars.close()
    assert "ocibridge: r.example has sent nothing for 10 s [bold]" in out.getvalue()
