# SPDX-License-Identifier: Apache-2.0
"""What a runtime is to the tests, and what it shows of an artifact that is mounted as a volume."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..trees import paths_in

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
BIN = Path(__file__).parents[2] / ".cache" / "runtimes" / "bin"


@dataclass(frozen=True)
class Seen:
    """What is in the volume.

    Attributes:
        files: The SHA-256 of each file, `-> TARGET` of each link, by path.
        write: The error that an attempt to write met; empty where it met none.
    """

    files: Mapping[str, str]
    write: str


class Refused(Exception):
    """The runtime would not mount the artifact, with its own words."""


class Engine(ABC):
    """A runtime with a home of its own.

    Attributes:
        version: The version that its program says, such as `1.6.20`.
    """

    version: str

    @abstractmethod
    def see(self, reference: str) -> Seen:
        """Pull an artifact, mount it, and look at it.

        Raises:
            Refused: it cannot be pulled or mounted.
        """


class KubeletEngine(Engine):
    """A daemon asked as the kubelet asks: a container started over the CRI looks at the volume.

    Args:
        program: The daemon's program, which listens on `socket` in `folder`.
        folder: Its home.
        look_image: The image with the program `look`.
    """

    def __init__(self, program: Path, folder: Path, look_image: str) -> None:
        self.version = version_of(program)
        self._folder = folder
        self._look_image = look_image

    def see(self, reference: str, sub_path: str = "") -> Seen:
        return spoken(self._crivol("run", reference, sub_path, self._look_image, "/look", "/m"))

    def wait_until_ready(self) -> None:
        """Wait until the daemon answers."""
        self._crivol("ready")

    def _crivol(self, verb: str, *arguments: str) -> str:
        return run(BIN / "crivol", self._folder / "socket", verb, *arguments, env={"TMPDIR": str(self._folder)})


@contextmanager
def daemon(*command: str | Path, folder: Path, env: Mapping[str, str]) -> Iterator[None]:
    """Run a daemon, with its log in `folder`."""
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=env)
    try:
        yield
    except Refused as exc:
        raise RuntimeError(f"{exc}\n{(folder / 'log').read_text()[-3000:]}") from exc
    finally:
        process.terminate()
        process.wait(30)


def run(*command: str | Path, env: Mapping[str, str] | None = None, folder: Path | None = None) -> str:
    """The output of a command that gets nothing of the user's environment but PATH.

    Raises:
        Refused: it fails.
    """
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **(env or {})}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise Refused(done.stderr.strip() or f"{command[0]}: exit status {done.returncode}")
    return done.stdout


def version_of(program: str | Path) -> str:
    """The first version number that `PROGRAM --version` says."""
    found = re.search(r"\d+\.\d+\.\d+", run(program, "--version"))
    assert found, f"{program} does not say its version"
    return found[0]


def spoken(output: str) -> Seen:
    """What the program `look` said (crivol/look/main.go)."""
    said = json.loads(output)
    return Seen(said["files"], said["write"])


def look(folder: Path) -> Seen:
    """The same, of a folder of this machine."""
    try:
        (folder / "written-by-look").touch()
    except OSError as exc:
        return Seen(tree(folder), str(exc))
    return Seen(tree(folder), "")


def tree(folder: Path, *, follow: bool = False) -> dict[str, str]:
    """The files of a folder, as `Seen` has them; `follow` takes links for the files that they lead to."""
    files = {}
    for path in paths_in(folder):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() and not follow:
            files[name] = f"-> {path.readlink()}"
        elif path.is_file():
            files[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return files


def on_overlay(folder: Path) -> bool:
    """Whether overlay mounts cannot be made in a folder, because it lies on one itself (tests in a container)."""
    return run("stat", "-f", "-c", "%T", folder).strip() == "overlayfs"


def unmount_below(folder: Path) -> None:
    """Unmount whatever a runtime has left mounted below a folder."""
    points = [line.split(" ")[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for point in sorted((each for each in points if each.startswith(f"{folder}/")), reverse=True):
        run("umount", "--lazy", point)
