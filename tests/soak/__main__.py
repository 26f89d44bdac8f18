# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.soak`: many transfers of random models over connections with random faults, all from one seed.

A transfer may fail, with an error of the package; what it must not do is counted: a success that is none; a tag, layout
or file that looks finished and is not; any other exception; a command that runs on and on. If there is any of these,
the exit status is 1, and the numbers of the transfers are printed: `--seed S --only K` repeats the transfer K.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO

from ocibridge.settings import MiB

from .results import LONG, TRACEBACK, Problem, Result, figures, summary

_MORE = 60.0
"""Seconds that preparing and checking a transfer may take on top of its command."""


class Hand:
    """A worker process, which is started anew where it ends or does not end.

    Args:
        seed: See `tests.soak.worker`.
        longest: See `tests.soak.worker`.
        folder: For what its process writes; removed with that.
    """

    def __init__(self, seed: int, longest: float, folder: Path) -> None:
        self._command = [sys.executable, "-m", "tests.soak.worker", str(seed), str(longest), str(folder)]
        self._folder = folder
        self._longest = longest
        self._process: subprocess.Popen[str] | None = None

    def do(self, number: int) -> Result:
        """The result of a transfer."""
        if self._process is None:
            self._folder.mkdir()
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
            )
            assert self._process.stdout
            self._lines: queue.Queue[str] = queue.Queue()
            threading.Thread(target=_read, args=(self._process.stdout, self._lines), daemon=True).start()
        assert self._process.stdin
        self._process.stdin.write(f"{number}\n")
        self._process.stdin.flush()
        known = Result(number)
        while True:
            try:
                line = self._lines.get(timeout=self._longest + _MORE)
            except queue.Empty:
                self._end()
                problem = Problem(LONG, "it did not end, and was killed")
                return replace(known, seconds=self._longest + _MORE, problems=[*known.problems, problem])
            if not line:
                self.close()
                problem = Problem(TRACEBACK, "the worker process has ended")
                return replace(known, problems=[*known.problems, problem])
            said = json.loads(line)
            if "result" in said:
                return Result.of(said["result"])
            known = Result.of(said["begun"])

    def _end(self) -> None:
        assert self._process
        os.kill(self._process.pid, signal.SIGUSR1)  # it prints where all of its threads are
        time.sleep(1)
        self.close()

    def close(self) -> None:
        """End the process, and all that it has started."""
        if self._process:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
            shutil.rmtree(self._folder, ignore_errors=True)

    def finish(self) -> None:
        """Let the process end by itself, and clean up."""
        if self._process and self._process.stdin:
            self._process.stdin.close()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                pass
            self.close()


def _read(lines: IO[str], into: queue.Queue[str]) -> None:
    for line in lines:
        into.put(line)
    into.put("")


def soak(numbers: Sequence[int], seed: int, jobs: int, longest: float, folder: Path) -> Iterator[Result]:
    """Results as they come."""
    left: queue.Queue[int] = queue.Queue()
    for number in numbers:
        left.put(number)
    results: queue.Queue[Result] = queue.Queue()
    hands = [Hand(seed, longest, folder / str(hand)) for hand in range(min(jobs, len(numbers)))]

    def work(hand: Hand) -> None:
        while True:
            try:
                number = left.get_nowait()
            except queue.Empty:
                hand.finish()
                return
            results.put(hand.do(number))

    threads = [threading.Thread(target=work, args=(hand,), daemon=True) for hand in hands]
    for thread in threads:
        thread.start()
    try:
        for _ in numbers:
            yield results.get()
        for thread in threads:
            thread.join()
    finally:
        for hand in hands:
            hand.close()


def main() -> int:
    """Run, and print figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--transfers", type=int, default=2000, metavar="N", help="how many (default 2000)")
    parser.add_argument("--seed", type=int, help="decides everything (default: a random one, which is printed)")
    parser.add_argument("--only", type=int, metavar="K", help="the transfer of this number alone")
    parser.add_argument("--times", type=int, default=1, metavar="N", help="how often, with --only (default 1)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="at the same time (default 2)")
    parser.add_argument("--longest", type=float, default=180, metavar="S", help="seconds for a command (default 180)")
    args = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 32) if args.seed is None else args.seed
    numbers = range(args.transfers) if args.only is None else [args.only] * args.times
    print(f"seed {seed}", flush=True)
    began = time.monotonic()
    results = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="ocibridge-soak-", dir=_fast()) as name:
        for result in soak(numbers, seed, args.jobs, args.longest, Path(name)):
            results.append(result)
            if result.problems or args.only is not None:
                _show(result, seed)
            if not len(results) % 100:
                print(f"{len(results)} transfers, {time.monotonic() - began:.0f} s", flush=True)
    print("\n".join(["", *figures(results, time.monotonic() - began), "", summary(results)]))
    return int(any(result.problems for result in results))


def _fast() -> Path | None:
    """Memory, where there is plenty: half of the time would go into waiting for a disk."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and shutil.disk_usage(memory).free > 4096 * MiB else None


def _show(result: Result, seed: int) -> None:
    how = "command line" if result.command else "library"
    print(f"\ntransfer {result.number}: {result.what} by {how}, {result.outcome} in {result.seconds:.1f} s")
    print(f"  {result.about}\n  happened: {result.faults or 'nothing'}\n  error: {result.error or 'none'}")
    for problem in result.problems:
        print(f"  {problem.kind.upper()}: {problem.text}")
    print(f"  again: make soak ARGS='--seed {seed} --only {result.number}'", flush=True)


if __name__ == "__main__":
    sys.exit(main())
