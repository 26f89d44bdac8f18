# SPDX-License-Identifier: Apache-2.0
"""Fifty commands that are killed at random moments: the next one goes on, and the result is always right.

The moments follow from a seed, which a failure prints; `OCIBRIDGE_KILL_SEED` repeats them. `pytest -rP tests/kill`
shows what was sent more than once.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

import ocibridge

from ..registry import RegistryServer, registry_server
from .commands import Ended, run
from .counting import Line
from .model import SIZE, check_copy, make_carton, unpack

pytestmark = pytest.mark.xdist_group("kill")

KILLS = 5
"""Processes that are killed in each of the ten tests."""
MOST_LOST = 0.05
SEED = int(os.environ.get("OCIBRIDGE_KILL_SEED") or random.SystemRandom().randrange(1 << 32))


@dataclass
class Stage:
    """A model, a registry, and a line to it that counts."""

    folder: Path
    registry: RegistryServer
    line: Line
    pushed: set[tuple[str, ...]]

    @cached_property
    def hashes(self) -> dict[str, str]:
        return make_carton(self.carton)

    @property
    def carton(self) -> Path:
        return self.folder / "model.carton"

    @cached_property
    def tree(self) -> Path:
        unpack(self.carton, self.folder / "tree")
        return self.folder / "tree"

    def source(self, place: str, form: tuple[str, ...]) -> str:
        """A reference to pull from, through the line if it is a registry."""
        name = "-".join((place, *form)).replace("--", "").replace("=", "-")
        layout = f"oci:{self.folder / name}:v1"
        if (place, *form) not in self.pushed:
            target = layout if place == "layout" else f"{self.registry.host}/pulls/{name}:v1"
            assert run("push", "-q", self.carton, target, *form).status == 0
            self.pushed.add((place, *form))
        return layout if place == "layout" else f"{self.line.host}/pulls/{name}:v1"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    # Not kept for later, as pytest would keep it: it is gigabytes.
    with tempfile.TemporaryDirectory(dir=tmp_path_factory.mktemp("kill")) as name:
        (storage := Path(name, "registry")).mkdir()
        with registry_server(storage) as registry, Line(registry.host) as line:
            made = Stage(Path(name), registry, line, set())
            assert made.hashes
            yield made


class Kills(ABC):
    """A command that is killed until `KILLS` of its processes were, each time at another moment.

    Args:
        name: Decides, with the seed, over the moments; they are spread over the time that a whole run takes.
    """

    def __init__(self, name: str) -> None:
        print(f"seed {SEED}")
        self._dice = random.Random(f"{SEED} {name}")

    def run(self) -> None:
        """Kill up to five processes in a row, let the next one finish, and begin anew."""
        whole = self.once(None)
        assert whole.status == 0, whole.err
        assert self.finished(whole)
        killed = 0
        while killed < KILLS:
            self.fresh()
            left = min(self._dice.randint(3, 5), KILLS - killed)
            while True:
                ended = self.once(self._dice.uniform(0.1, 0.95) * whole.seconds if left else None)
                if ended.status == -signal.SIGKILL:
                    killed, left = killed + 1, left - 1
                else:
                    assert ended.status == 0, ended.err
                if self.finished(ended):
                    break

    @abstractmethod
    def once(self, seconds: float | None) -> Ended:
        """Run the command for so many seconds, or to its end."""

    @abstractmethod
    def finished(self, ended: Ended) -> bool:
        """Whether the work is done, right, though the process may have been killed after that."""

    @abstractmethod
    def fresh(self) -> None:
        """Begin anew with nothing."""


class Pulls(Kills):
    """Pulls of one artifact to one target.

    `lost` counts what the last killed process had written to the disk and the next one did not take over; of compressed
    layers, what it kept of their blobs. What was still in a socket, or on its way through memory, is in flight: `again`
    counts that too.
    """

    def __init__(self, stage: Stage, source: str, dest: Path) -> None:
        super().__init__(f"{source.rpartition('/')[2]} {dest.name}")
        self._stage = stage
        self._source = source
        self._dest = dest
        self._workspace = dest.with_name(f".{dest.name}.ocibridge")
        self._identity = ocibridge.inspect(stage.carton).identity
        self._received = self._on_disk = 0
        self.lost: list[int] = []
        self.again: list[int] = []

    def once(self, seconds: float | None) -> Ended:
        before = self._stage.line.received
        self._on_disk = self._arrived()
        ended = run("pull", self._source, self._dest, "--json", kill_after=seconds)
        self._received += self._stage.line.received - before
        return ended

    def finished(self, ended: Ended) -> bool:
        if not self._dest.exists():
            assert ended.status
            return False
        check_copy(self._dest, self._stage.hashes)
        if not ended.status:
            assert ended.report["identity"] == self._identity
            assert list(self._dest.parent.iterdir()) == [self._dest]
            self.lost.append(max(0, self._on_disk - ended.report["kept"]))
            self.again.append(self._received - ended.report["size"])
        return True

    def fresh(self) -> None:
        self._received = 0
        for path in (self._dest, self._workspace):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    def _arrived(self) -> int:
        kept = (path for path in self._workspace.rglob("sha256-*" if "zstd" in self._source else "*"))
        files = [path for path in kept if path.is_file() and path.name not in ("journal", "lock")]
        return sum(path.stat().st_blocks * 512 for path in files)


class Pushes(Kills):
    """Pushes of one model, each time to a new repository or layout."""

    def __init__(self, stage: Stage, source: Path, place: str, form: tuple[str, ...], folder: Path) -> None:
        super().__init__(f"{source.name} {place} {form}")
        self._stage = stage
        self._source = source
        self._place = place
        self._form = form
        self._folder = folder
        self._count = 0
        self._identity = ocibridge.inspect(source).identity
        self._sent = 0
        self.again: list[int] = []

    @property
    def _target(self) -> str:
        if self._place == "layout":
            return f"oci:{self._folder}/{self._count}:v1"
        return f"{self._stage.line.host}/pushes/{self._folder.name.replace('_', '-')}-{self._count}:v1"

    def once(self, seconds: float | None) -> Ended:
        before = self._stage.line.sent
        ended = run("push", self._source, self._target, "--json", *self._form, kill_after=seconds)
        self._sent += self._stage.line.sent - before
        return ended

    def finished(self, ended: Ended) -> bool:
        try:
            ocibridge.inspect(self._target)
        except ocibridge.NotFound:
            assert ended.status
            return False
        # The tag comes last: where there is one, everything is there.
        verified = run("verify", self._target, "--json").report
        assert verified["identity"] == self._identity
        if not ended.status:
            self.again.append(self._sent - sum(layer["size"] for layer in ended.report["layers"]))
        return True

    def check(self) -> None:
        """Pull the last of them, and compare every byte."""
        back = self._folder / "back"
        assert run("pull", self._target, back, "--json").report["identity"] == self._identity
        check_copy(back, self._stage.hashes)
        shutil.rmtree(back)

    def fresh(self) -> None:
        if self._place == "layout":
            shutil.rmtree(self._folder / str(self._count), ignore_errors=True)
        self._count += 1
        self._sent = 0


@pytest.mark.parametrize(
    ("place", "form", "name"),
    [
        ("registry", (), "back.carton"),
        ("registry", ("--layers=raw-files",), "back"),
        ("registry", ("--compress=zstd",), "back.carton"),
        ("layout", (), "back"),
        ("layout", ("--layers=raw-files",), "back.carton"),
    ],
    ids=["tar-carton", "files-folder", "zstd-carton", "layout-tar-folder", "layout-files-carton"],
)
def test_pulls(stage: Stage, tmp_path: Path, place: str, form: tuple[str, ...], name: str) -> None:
    pulls = Pulls(stage, stage.source(place, form), tmp_path / name)
    pulls.run()
    shares = ", ".join(f"{lost / SIZE:.1%}" for lost in pulls.lost)
    print(f"lost of what was on the disk: {shares}")
    if place == "registry":
        print(f"received again, with what was in flight: {', '.join(f'{more / SIZE:.1%}' for more in pulls.again)}")
    assert max(pulls.lost) <= MOST_LOST * SIZE, shares


@pytest.mark.parametrize(
    ("source", "place", "form"),
    [
        ("carton", "registry", ()),
        ("carton", "registry", ("--layers=raw-files",)),
        ("carton", "registry", ("--compress=zstd",)),
        ("tree", "registry", ()),
        ("carton", "layout", ()),
    ],
    ids=["tar", "files", "zstd", "folder", "layout"],
)
def test_pushes(stage: Stage, tmp_path: Path, source: str, place: str, form: tuple[str, ...]) -> None:
    pushes = Pushes(stage, getattr(stage, source), place, form, tmp_path)
    pushes.run()
    pushes.check()
    if place == "registry":
        print(f"sent again: {', '.join(f'{more / SIZE:.1%}' for more in pushes.again)}")
