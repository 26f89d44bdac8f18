# SPDX-License-Identifier: Apache-2.0
"""Whether a test has left something behind: a thread of ours, a socket, a file in the temporary folder."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

_FILES = Path("/proc/self/fd")
_LONGEST = 10.0


@pytest.fixture
def nothing_left(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fails where something is left; what the servers of a test close by themselves has a moment for that."""
    temp = tmp_path_factory.mktemp("temp")
    monkeypatch.setenv("TMPDIR", str(temp))
    monkeypatch.setattr(tempfile, "tempdir", str(temp))
    before = _sockets()
    yield
    end = time.monotonic() + _LONGEST
    while (found := [*_threads(), *(_sockets() - before)]) and time.monotonic() < end:
        time.sleep(0.01)
    assert [*found, *temp.iterdir()] == []


def _threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("ocibridge")]


def _sockets() -> set[str]:
    """The open sockets of this process, where the system tells."""
    found = set()
    for link in _FILES.iterdir() if _FILES.is_dir() else ():
        try:
            found.add(str(link.readlink()))
        except OSError:
            continue  # the descriptor of this very listing
    return {name for name in found if name.startswith("socket:")}
