# SPDX-License-Identifier: Apache-2.0
"""The registries that the tools talk to: their storage, their access logs, and the processor time they take."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from tests.registry import registry_server

_MANY = 1000


class Metered(Protocol):
    """Processes whose processor time is counted."""

    def cpu(self) -> float:
        """Processor seconds used so far."""


class Server:
    """A running registry.

    Args:
        host: `127.0.0.1:PORT`.
        folder: Where it keeps its storage and its log.
        pid: Its process, or None where that cannot be told.

    Attributes:
        log: What it logs, requests included if it was started so.
    """

    def __init__(self, host: str, folder: Path, pid: int | None) -> None:
        self.host = host
        self.log = folder / "registry.log"
        self._storage, self._old = folder / "storage", folder / "old"
        self._pid = pid

    def cpu(self) -> float:
        """Processor seconds that it has used so far, to a hundredth; 0 where that cannot be told."""
        return 0.0 if self._pid is None else cpu_of(self._pid)

    def empty(self) -> None:
        """Remove everything that was pushed to it."""
        put_away(self._storage, self._old)

    def version(self) -> str:
        """What the program says of itself, but for its path."""
        if self._pid is None:
            return "unknown"
        program = Path(f"/proc/{self._pid}/exe").resolve()
        said = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
        return " ".join(said.split()[1:])


def cpu_of(pid: int) -> float:
    """Processor seconds that a process has used so far, to a hundredth; 0 where that cannot be told."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def put_away(folder: Path, old: Path) -> None:
    """Remove a folder; one with many files goes to `old`, for the end: ext4 makes new ones slowly after that."""
    if sum(1 for _ in folder.rglob("*")) > _MANY:
        old.mkdir(exist_ok=True)
        folder.rename(old / str(len(list(old.iterdir()))))
    else:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def serve(folder: Path, *, tls: bool = False, access_log: bool = False) -> Iterator[Server]:
    """A registry of its own as a process, which keeps everything in `folder`.

    Args:
        folder: Made for it.
        tls: Whether it speaks HTTPS, with a certificate that `tests.registry.TLS / "ca.pem"` signed.
        access_log: Whether it logs every request.
    """
    os.environ["OCIBRIDGE_TEST_REGISTRY"] = "process"
    folder.mkdir()
    with registry_server(folder, tls=tls, access_log=access_log) as found:
        yield Server(found.host, folder, _process_of(folder))


def _process_of(folder: Path) -> int | None:
    """The process that has a file of `folder` in its command line."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if os.fsencode(folder) + b"/" in path.read_bytes():
                return int(path.parent.name)
        except OSError:
            continue
    return None
