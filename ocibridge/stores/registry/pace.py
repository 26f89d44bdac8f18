# SPDX-License-Identifier: Apache-2.0
"""Transfers that still move, but too slowly to ever arrive: no timeout between two bytes notices them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import httpx

from ...settings import KiB
from .options import Timeouts

_PART = 16 * KiB
_PROMPT = 1.0


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


class SteadyBody:
    """A request body that is given up when the other side hardly takes any of it.

    Args:
        body: The body; it can be iterated again for each try.
        timeouts: See `Pace`.
    """

    def __init__(self, body: Iterable[bytes], timeouts: Timeouts) -> None:
        self._body = body
        self._timeouts = timeouts

    def __iter__(self) -> Iterator[bytes]:
        """The bytes, from the start.

        Raises:
            TooSlow: see `Pace.moved`.
        """
        pace = Pace(self._timeouts)
        # Nothing can be measured while one part is being taken, so parts are small until they go fast.
        size = _PART
        for piece in self._body:
            position = 0
            while position < len(piece):
                part = piece[position : position + size]
                start = time.monotonic()
                yield part
                seconds = time.monotonic() - start
                pace.moved(len(part), seconds)
                position += len(part)
                size = 2 * size if seconds < _PROMPT else _PART
