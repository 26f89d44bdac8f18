# SPDX-License-Identifier: Apache-2.0
"""One command, measured from outside: wall time, processor time, peak memory, peak disk, bytes read."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .server import Metered


@dataclass(frozen=True)
class Run:
    """Figures of one finished process and its children.

    Attributes:
        wall: Seconds from start to end.
        user: Processor seconds in the program.
        system: Processor seconds in the kernel on its behalf.
        server: Processor seconds of the registry in the meantime.
        rss: Peak resident memory of the largest process, in bytes.
        disk: Peak bytes in the watched folders, above what was there before.
        read: Bytes that read calls on files gave (`rchar` of Linux; sockets do not count), or None.
    """

    wall: float
    user: float
    system: float
    server: float
    rss: int
    disk: int
    read: int | None

    @property
    def cpu(self) -> float:
        """Processor seconds of the command."""
        return self.user + self.system


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        measure: What was done.
        tool: Who did it.
        run: Medians of the times, and the largest of everything else.
        low: Shortest wall time in seconds.
        high: Longest wall time in seconds.
    """

    measure: str
    tool: str
    run: Run
    low: float
    high: float


def summary(measure: str, tool: str, runs: Sequence[Run]) -> Row:
    """The row of some runs of one command."""
    reads = [each.read for each in runs if each.read is not None]
    run = Run(
        wall=statistics.median(each.wall for each in runs),
        user=statistics.median(each.user for each in runs),
        system=statistics.median(each.system for each in runs),
        server=statistics.median(each.server for each in runs),
        rss=max(each.rss for each in runs),
        disk=max(each.disk for each in runs),
        read=max(reads) if reads else None,
    )
    return Row(measure, tool, run, min(each.wall for each in runs), max(each.wall for each in runs))


# A child's peak memory starts with that of the process that forked it, so a small one has to fork. The child is looked
# at before it is reaped, because its counters in /proc go with it.
LAUNCHER = """
import os, sys, time
started = time.perf_counter()
pid = os.fork()
if not pid:
    os.execvp(sys.argv[1], sys.argv[1:])
read = -1
if os.path.exists("/proc/self/io"):
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    wall = time.perf_counter() - started
    with open(f"/proc/{pid}/io") as file:
        read = int(file.readline().split()[1])
    _, status, usage = os.wait4(pid, 0)
else:
    _, status, usage = os.wait4(pid, 0)
    wall = time.perf_counter() - started
unit = 1 if sys.platform == "darwin" else 1024
print()
print(wall, usage.ru_utime, usage.ru_stime, usage.ru_maxrss * unit, read)
sys.exit(os.waitstatus_to_exitcode(status) and 1)
"""


def run(
    command: Sequence[str], *, env: dict[str, str], watch: Sequence[Path] = (), server: Metered | None = None
) -> Run:
    """Run a command to its end.

    Args:
        command: Program and arguments.
        env: Its environment.
        watch: Folders whose growth is the disk figure.
        server: What it talks to.

    Raises:
        SystemExit: the command failed, which ends the benchmark.
    """
    before = server.cpu() if server else 0.0
    watcher = _Watcher(watch)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LAUNCHER, *command], capture_output=True, text=True, env=env
    )
    disk = watcher.stop()
    if done.returncode:
        raise SystemExit(f"{' '.join(command)[:1000]} failed:\n{done.stderr}")
    wall, user, system, rss, read = done.stdout.splitlines()[-1].split()
    used = server.cpu() - before if server else 0.0
    return Run(float(wall), float(user), float(system), used, int(rss), disk, int(read) if int(read) >= 0 else None)


class _Watcher:
    """Looks at the size of folders up to twenty times a second, with at most a twentieth of one processor."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._peak = self._before = self._size()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look)
        if folders:
            self._thread.start()

    def _look(self) -> None:
        pause = 0.05
        while not self._done.wait(pause):
            started = time.thread_time()
            self._peak = max(self._peak, self._size())
            pause = max(0.05, 20 * (time.thread_time() - started))

    def _size(self) -> int:
        return sum(allocated(folder) for folder in self._folders)

    def stop(self) -> int:
        self._done.set()
        if self._folders:
            self._thread.join()
        return max(self._peak, self._size()) - self._before


def allocated(folder: Path) -> int:
    """Bytes that the files below a folder take on disk; files that vanish meanwhile do not count."""
    total = 0
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    total += allocated(Path(entry.path))
                else:
                    total += _blocks(entry)
    except FileNotFoundError:
        pass
    return total


def _blocks(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_blocks * 512
    except FileNotFoundError:
        return 0
