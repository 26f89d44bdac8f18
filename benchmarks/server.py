# SPDX-License-Identifier: Apache-2.0
"""The registry that the tools talk to: its storage, and the processor time it takes."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.registry import registry_server


class Server:
    """A running registry.

    Args:
        host: `127.0.0.1:PORT`.
        storage: Its storage folder.
        pid: Its process, or None where that cannot be told.
    """

    def __init__(self, host: str, storage: Path, pid: int | None) -> None:
        self.host = host
        self._storage = storage
        self._pid = pid

    def cpu(self) -> float:
        """Processor seconds that it has used so far, to a hundredth; 0 where that cannot be told."""
        if self._pid is None:
            return 0.0
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def empty(self) -> None:
        """Remove everything that was pushed to it."""
        shutil.rmtree(self._storage, ignore_errors=True)

    def version(self) -> str:
        """What the program says of itself, but for its path."""
        if self._pid is None:
            return "unknown"
        program = Path(f"/proc/{self._pid}/exe").resolve()
        said = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
        return " ".join(said.split()[1:])


@contextmanager
def serve(folder: Path) -> Iterator[Server]:
    """A registry of its own as a process, which keeps everything in `folder`."""
    os.environ["OCIBRIDGE_TEST_REGISTRY"] = "process"
    folder.mkdir()
    with registry_server(folder) as found:
        yield Server(found.host, folder / "storage", _process_of(folder))


def _process_of(folder: Path) -> int | None:
    """The process that has a file of `folder` in its command line."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if os.fsencode(folder) + b"/" in path.read_bytes():
                return int(path.parent.name)
        except OSError:
            continue
    return None
