# SPDX-License-Identifier: Apache-2.0
"""Locks between processes, which the system gives up for whoever dies."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import writing

if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int, wait: bool) -> bool:
        # What is locked cannot be read by way of another handle: a byte that no file has.
        at = os.lseek(handle, 0, os.SEEK_CUR)
        os.lseek(handle, 1 << 60, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        except OSError:
            if wait:
                raise
            return False
        finally:
            os.lseek(handle, at, os.SEEK_SET)
        return True

else:
    try:
        import fcntl
    except ImportError:  # a system without file locks has no second process either

        def _lock(handle: int, wait: bool) -> bool:
            return True
    else:

        def _lock(handle: int, wait: bool) -> bool:
            # Some network file systems know no locks; two writers of one target are rarer than they are.
            with suppress(OSError):
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return False
            return True


def try_lock(handle: int, path: Path | None = None) -> bool:
    """Lock an open file exclusively, without waiting.

    Args:
        handle: Its descriptor.
        path: Its name, where it counts that it still has it: whoever had the lock before may have renamed or removed
            the file.

    Returns:
        False where somebody else holds the lock, or another file or none has the name.
    """
    return _lock(handle, wait=False) and (path is None or is_named(handle, path))


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path` (made and removed here) against other threads and processes of this machine.

    Raises:
        DestinationError: the lock file cannot be made.
    """
    while True:
        with writing(path):
            file = open(path, "ab")
            _lock(file.fileno(), wait=True)
        # Whoever held the lock before has removed the file; a lock on a removed file keeps nobody out.
        if is_named(file.fileno(), path):
            break
        file.close()
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        file.close()


def is_named(handle: int, path: Path) -> bool:
    """Return whether an open file is the one of this name."""
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except OSError:
        return False
