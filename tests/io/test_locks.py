# SPDX-License-Identifier: Apache-2.0
"""Locks: one holder at a time, and none after its death."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ocibridge.io.locks import try_lock

_HOLD = (
    "import os, sys; from ocibridge.io.locks import try_lock\n"
    "assert try_lock(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)); print('held', flush=True); sys.stdin.read()"
)


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        handle = os.open(path, os.O_RDWR)
        try:
            assert not try_lock(handle)
            process.kill()
            process.wait(30)
            assert try_lock(handle), "the system gives up the lock of whoever dies"
        finally:
            os.close(handle)


@pytest.mark.skipif(sys.platform == "win32", reason="flock of POSIX")
def test_a_file_system_without_locks_is_used_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    def fail(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", fail)
    handle = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    try:
        assert try_lock(handle)
    finally:
        os.close(handle)
