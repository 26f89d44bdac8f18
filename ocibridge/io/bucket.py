# SPDX-License-Identifier: Apache-2.0
"""A token bucket, for a limit on the bytes of each second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ..errors import UsageError


class TokenBucket:
    """A bucket that holds what may pass in one second; thread-safe.

    Args:
        rate: Bytes per second.
        clock: Seconds that only ever grow.

    Raises:
        UsageError: the rate is below one byte per second.
    """

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        if rate < 1:
            raise UsageError(f"a bandwidth of {rate:g} bytes per second lets nothing pass", hint="choose a larger one")
        self.rate = rate
        self._clock = clock
        self._lock = threading.Lock()
        self._until = clock() - 1.0

    def reserve(self, count: int) -> float:
        """Take `count` bytes out, and return the seconds to wait until they may pass; those who wait are in order."""
        with self._lock:
            now = self._clock()
            self._until = max(self._until, now - 1.0) + count / self.rate
            return max(0.0, self._until - now)
