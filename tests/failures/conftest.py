# SPDX-License-Identifier: Apache-2.0
"""The command line in this process, a disk, and a line to the registry."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

import ocibridge
from ocibridge.cli.main import main
from ocibridge.settings import MiB

from ..faults.moves import make_model, weight
from ..formats.ollama.samples import GGUF
from ..kill.counting import Line
from ..leaks import nothing_left
from ..registry import RegistryServer
from .disk import Disk, PretendedDisk, RealDisk, mounted

__all__ = ["nothing_left"]


@dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str

    @property
    def sentence(self) -> str:
        """The one sentence of a command that failed."""
        lines = [line for line in self.err.splitlines() if not line.startswith("ocibridge: warning: ")]
        assert self.status == 1
        assert self.out == ""
        assert len(lines) == 1, self.err
        assert lines[0].startswith("ocibridge: error: ")
        assert "should not happen" not in self.err
        return lines[0].removeprefix("ocibridge: error: ")


class Commands:
    """Runs commands in threads of this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str], pool: ThreadPoolExecutor) -> None:
        self._capsys = capsys
        self._pool = pool

    def start(self, *argv: object) -> Future[int]:
        self._capsys.readouterr()
        return self._pool.submit(main, [str(each) for each in argv])

    def end(self, running: Future[int]) -> Outcome:
        status = running.result(60)
        return Outcome(status, *self._capsys.readouterr())

    def __call__(self, *argv: object) -> Outcome:
        return self.end(self.start(*argv))


@pytest.fixture(autouse=True)
def clean(nothing_left: None) -> None:
    """See `tests.leaks`."""


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Iterator[Commands]:
    with ThreadPoolExecutor(4) as pool:
        yield Commands(capsys, pool)


@pytest.fixture(scope="session")
def carton(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A carton with one weight of 12 MiB."""
    return make_model(tmp_path_factory.mktemp("model") / "digits.carton", 12 * MiB)


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    """A folder with a GGUF file of 12 MiB."""
    (tmp_path / "gguf").mkdir()
    (tmp_path / "gguf" / "model.gguf").write_bytes(GGUF + weight(12 * MiB))
    return tmp_path / "gguf"


@pytest.fixture
def line(registry: RegistryServer) -> Iterator[Line]:
    with Line(registry.host) as running:
        yield running


@pytest.fixture
def pushed(registry: RegistryServer, repository: str, carton: Path) -> str:
    """The carton in the registry: repository and tag."""
    ocibridge.push(carton, f"{registry.host}/{repository}:v1")
    return f"{repository}:v1"


@pytest.fixture(params=["real", "pretended"])
def disk(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """A disk of 48 MiB; where none can be mounted, it is pretended in both cases."""
    with mounted(tmp_path / "disk") as done:
        if done and request.param == "real":
            yield RealDisk(tmp_path / "disk")
        else:
            (tmp_path / "disk" / "folder").mkdir()
            yield PretendedDisk(tmp_path / "disk" / "folder", monkeypatch)


@pytest.fixture
def walled(tmp_path: Path) -> Iterator[Path]:
    """A folder in which nothing can be written, whoever tries."""
    with mounted(tmp_path / "walled") as done:
        if done:
            subprocess.run(["mount", "-o", "remount,ro", str(tmp_path / "walled")], check=True, timeout=30)
            yield tmp_path / "walled"
        else:
            # Not even the administrator makes files below a file.
            yield Path(__file__)
