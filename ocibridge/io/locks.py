# SPDX-License-Identifier: Apache-2.0
"""Locks between processes, which the system gives up for whoever dies."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

if sys.platform == "win32":
    import msvcrt

    def _locked(handle: int, mode: int) -> None:
        # What is locked cannot be read by way of another handle: a byte that no file has.
        at = os.lseek(handle, 0, os.SEEK_CUR)
        os.lseek(handle, 1 << 60, os.SEEK_SET)
        try:
            msvcrt.locking(handle, mode, 1)
        finally:
            os.lseek(handle, at, os.SEEK_SET)

    def take(handle: int) -> bool:
        """Lock an open file exclusively, without waiting; False where somebody else holds it."""
        try:
            _locked(handle, msvcrt.LK_NBLCK)
        except OSError:
            return False
        return True

    def hold(handle: int) -> None:
        """Lock an open file exclusively, as soon as nobody else holds it."""
        _locked(handle, msvcrt.LK_LOCK)

else:
    try:
        import fcntl
    except ImportError:  # a system without file locks has no second process either

        def take(handle: int) -> bool:
            """Lock an open file exclusively, without waiting; False where somebody else holds it."""
            return True

        def hold(handle: int) -> None:
            """Lock an open file exclusively, as soon as nobody else holds it."""
    else:

        def take(handle: int) -> bool:
            """Lock an open file exclusively, without waiting; False where somebody else holds it."""
            # Some network file systems know no locks; two writers of one target are rarer than they are.
            with suppress(OSError):
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return False
            return True

        def hold(handle: int) -> None:
            """Lock an open file exclusively, as soon as nobody else holds it."""
            with suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_EX)
