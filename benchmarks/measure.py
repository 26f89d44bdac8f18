# SPDX-License-Identifier: Apache-2.0
"""One command, measured from outside: wall time, processor time, peak memory, peak disk."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Run:
    """Figures of one finished process and its children.

    Attributes:
        wall: Seconds from start to end.
        cpu: User and system seconds.
        rss: Peak resident memory of the largest process, in bytes.
        disk: Peak bytes in the watched folders, above what was there before.
    """

    wall: float
    cpu: float
    rss: int
    disk: int


# A child's peak memory starts with that of the process that forked it, so a small one has to fork.
LAUNCHER = """
import os, sys, time
started = time.perf_counter()
pid = os.fork()
if not pid:
    os.execvp(sys.argv[1], sys.argv[1:])
_, status, usage = os.wait4(pid, 0)
print(time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status) and 1)
"""


def run(command: Sequence[str], *, watch: Sequence[Path] = (), env: dict[str, str] | None = None) -> Run:
    """Run a command to its end; a failing one ends the benchmark."""
    watcher = _Watcher(watch)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LAUNCHER, *command],
        capture_output=True,
        text=True,
        env={**os.environ, **(env or {})},
    )
    disk = watcher.stop()
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    wall, cpu, rss = done.stdout.splitlines()[-1].split()
    return Run(float(wall), float(cpu), int(rss) * 1024, disk)


def median(
    command: Callable[[], Sequence[str]],
    rounds: int,
    *,
    prepare: Callable[[], None] = lambda: None,
    watch: Sequence[Path] = (),
    env: dict[str, str] | None = None,
) -> Run:
    """Medians of several runs, after one that does not count (with more than one round).

    Args:
        command: Gives the command of the next run.
        rounds: Runs that count.
        prepare: Called before each run.
        watch: Folders whose growth is the disk figure.
        env: Variables added to the environment.
    """
    runs = []
    for number in range(rounds + (rounds > 1)):
        prepare()
        found = run(command(), watch=watch, env=env)
        if number or rounds == 1:
            runs.append(found)
    return Run(
        statistics.median(each.wall for each in runs),
        statistics.median(each.cpu for each in runs),
        max(each.rss for each in runs),
        max(each.disk for each in runs),
    )


class _Watcher:
    """Looks at the size of folders twenty times a second."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._before = self._size()
        self._peak = self._before
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look)
        if folders:
            self._thread.start()

    def _look(self) -> None:
        while not self._done.wait(0.05):
            self._peak = max(self._peak, self._size())

    def _size(self) -> int:
        total = 0
        for folder in self._folders:
            for path in folder.rglob("*"):
                try:
                    status = path.lstat()
                except OSError:
                    continue
                total += status.st_blocks * 512
        return total

    def stop(self) -> int:
        self._done.set()
        if self._folders:
            self._thread.join()
        return max(self._peak, self._size()) - self._before
