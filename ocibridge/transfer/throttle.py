# SPDX-License-Identifier: Apache-2.0
"""A limit on the bytes that pass each second, shared by all that move some."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ..io.bucket import TokenBucket
from .workers import Cancelled


class Throttle:
    """A token bucket that holds what may pass in one second.

    Example:
        >>> throttle = Throttle(50 << 20)
        >>> throttle.take(256 << 10)

    Args:
        rate: Bytes per second, for all threads together.
        stopped: Ends all waiting when it is set; None makes one for `stop`.
        clock: Seconds that only ever grow.

    Raises:
        UsageError: the rate is below one byte per second.
    """

    def __init__(
        self, rate: float, stopped: threading.Event | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._bucket = TokenBucket(rate, clock)
        self._stopped = stopped or threading.Event()
        self._clock = clock

    def take(self, count: int) -> None:
        """Wait until `count` bytes may pass; threads are served in order.

        Args:
            count: Bytes. A number below zero, which takes a report back, frees nothing: those bytes have passed.

        Raises:
            Cancelled: somebody has called `stop`.
        """
        if self._stopped.is_set():
            raise Cancelled
        if count <= 0:
            return
        due = self._clock() + self._bucket.reserve(count)
        while (left := due - self._clock()) > 0:
            if self._stopped.wait(left):
                raise Cancelled

    def stop(self) -> None:
        """Wake all who wait; nothing passes any more."""
        self._stopped.set()
