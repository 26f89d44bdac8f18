# SPDX-License-Identifier: Apache-2.0
"""What a runtime is to the tests, and what it shows of an artifact that is mounted as a volume."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

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


def run(*command: str | Path, env: Mapping[str, str] | None = None) -> str:
    """The output of a command that gets nothing of the user's environment but PATH.

    Raises:
        Refused: it fails.
    """
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **(env or {})}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
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
    for path in folder.rglob("*"):
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
