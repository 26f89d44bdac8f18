# SPDX-License-Identifier: Apache-2.0
"""Where the benchmark works, and the rounds that it runs there."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ocibridge.settings import MiB

from .measure import Row, Run, run, summary
from .server import Metered, Server, put_away
from .tools import Command


@dataclass(frozen=True)
class Case:
    """A command to measure.

    Attributes:
        measure: What it does; the first tool of a measure is what the others are compared with.
        tool: Whose command it is.
        command: Program and arguments.
        server: What it talks to.
        kept: Whether it finds the home that the preparations have used, digest cache and all, and not an empty one.
    """

    measure: str
    tool: str
    command: Command
    server: Metered | None = None
    kept: bool = False


class Place:
    """Folders and registries of the benchmark.

    Args:
        folder: An empty folder, with room for about six times the largest model.
        pushes: Registry that is emptied before each run.
        pulls: Registry that keeps what the preparations push to it.
        fsync_all: Whether to wait before each run until the disk has what the runs before have written.
        trust: Folder with the certificate authorities of registries that speak HTTPS; None where they speak HTTP.
    """

    def __init__(
        self, folder: Path, pushes: Server, pulls: Server, *, fsync_all: bool, trust: Path | None = None
    ) -> None:
        self.pushes, self.pulls, self.trust = pushes, pulls, trust
        self.models, self.out = folder / "models", folder / "out"
        self.missing: list[str] = []
        self._settle = fsync_all
        self._home, self._kept, self._temp = folder / "home", folder / "kept", folder / "temp"
        self._old = folder / "old"
        for each in (self.models, self.out, self._home, self._kept, self._temp, self._old):
            each.mkdir()

    def prepare(self, command: Command) -> None:
        """Run a command that is not measured."""
        run(command, env=self.env(self._kept))

    def watched(self, command: Command) -> None:
        """Run a command that is not measured, with an empty home."""
        run(command, env=self.env())

    def clear(self) -> None:
        """Leave nothing of earlier runs: no output, no cache, nothing pushed, nothing that has to be written yet."""
        put_away(self.out, self._old)
        self.out.mkdir()
        for folder in (self._home, self._temp):
            shutil.rmtree(folder)
            folder.mkdir()
        self.pushes.empty()
        self.fsync_all()

    def fsync_all(self) -> None:
        """Wait until the disk has what was written so far."""
        if self._settle:
            os.sync()

    def forget(self) -> None:
        """Give the room of the models and of what was prepared from them back."""
        self.clear()
        self.pulls.empty()
        for folder in (self.models, self._kept, self._old):
            shutil.rmtree(folder)
            folder.mkdir()

    def rounds(self, cases: Sequence[Case], count: int) -> list[Row]:
        """Measure the cases `count` times, in turns, so that a slow minute of the machine hits all of them.

        Every round starts with another case. Cases whose program is not installed are left out, and named in `missing`.
        """
        there = [case for case in cases if self.installed(case)]
        runs: dict[Case, list[Run]] = {case: [] for case in there}
        for number in range(count):
            first = number % len(there)
            for case in (*there[first:], *there[:first]):
                runs[case].append(self.measured(case))
        self.clear()
        return [summary(case.measure, case.tool, runs[case]) for case in there]

    def measured(self, case: Case) -> Run:
        """One run of a case."""
        self.clear()
        return self.again(case)

    def again(self, case: Case) -> Run:
        """One run of a case in what the run before has left."""
        home = self._kept if case.kept else self._home
        found = run(case.command, env=self.env(home), watch=(self.out, home, self._temp), server=case.server)
        note(f"{case.measure}, {case.tool}: {found.wall:.2f} s, {found.rss / MiB:.0f} MiB")
        return found

    def installed(self, case: Case) -> bool:
        """Whether its program is; one that is not is named in `missing`."""
        there = shutil.which(case.command[0]) is not None
        if not there and case.command[0] not in self.missing:
            self.missing.append(case.command[0])
        return there

    def env(self, home: Path | None = None) -> dict[str, str]:
        """The environment of commands, with the home that is emptied before each run unless another is given."""
        home = home or self._home
        folders = {f"XDG_{name}_HOME": str(home / name.lower()) for name in ("CACHE", "CONFIG", "DATA", "STATE")}
        local = {"no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}
        mine = {"HOME": str(home), "DOCKER_CONFIG": str(home), "TMPDIR": str(self._temp)}
        return {**os.environ, **folders, **local, **mine}


def note(text: str) -> None:
    """Say how far it is."""
    print(f"  {text}", file=sys.stderr, flush=True)
