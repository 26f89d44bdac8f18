# SPDX-License-Identifier: Apache-2.0
"""Transfers that still move, but too slowly to ever arrive: no timeout between two bytes notices them."""

from __future__ import annotations

import httpx

from .options import Timeouts


class TooSlow(httpx.TimeoutException):
    """Fewer bytes have moved than `Timeouts.rate` asks for."""


class Pace:
    """Bytes that move, and the seconds spent on waiting for them.

    Args:
        timeouts: The least rate, and the seconds over which it is taken.
    """

    def __init__(self, timeouts: Timeouts) -> None:
        self._timeouts = timeouts
        self._bytes = 0
        self._seconds = 0.0

    def moved(self, count: int, seconds: float) -> None:
        """Count bytes that took so many seconds.

        Raises:
            TooSlow: over the last `Timeouts.window` seconds of waiting, too few have moved.
        """
        self._bytes += count
        self._seconds += seconds
        if self._seconds < self._timeouts.window:
            return
        if self._bytes < self._timeouts.rate * self._seconds:
            raise TooSlow(f"fewer than {self._timeouts.rate} bytes per second")
        self._bytes, self._seconds = 0, 0.0
