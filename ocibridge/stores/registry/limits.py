# SPDX-License-Identifier: Apache-2.0
"""Permits to send a request, where a user limits what is asked of a host (`RateLimits`)."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx

from ...errors import OcibridgeError
from .options import RateLimits
from .retry import Backoff, remaining


class Probe(Protocol):
    """A request that can be repeated for the sake of the header of its response."""

    @property
    def method(self) -> str:
        """HTTP method."""
        ...

    def as_head(self) -> Probe:
        """The same as a HEAD request, without a range."""
        ...


Look = Callable[[Any], object]
"""Send such a request."""


class Permits:
    """Threads that hold permits and threads that wait for one, over all hosts of a command.

    Attributes:
        lock: Guards the permits of all limiters.
        holding: Permits by thread.
        waiting: Threads that wait.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holding: Counter[int] = Counter()
        self.waiting: set[int] = set()


class RequestLimiter:
    """Permits of all threads that use one host, first come, first served.

    A thread may take a second permit while it has one, here or for another host: for the bytes of an upload, say. It
    precedes threads without one, so that begun work ends; and it may exceed the limit if all threads that could
    return a permit are waiting.

    Args:
        limits: The rate limits.
        backoff: Back-off state of the host; call `wake` after stopping it.
        permits: Permits of all hosts that share threads.
    """

    def __init__(self, limits: RateLimits, backoff: Backoff, permits: Permits) -> None:
        self._limit = limits.concurrent
        self._interval = 1 / limits.per_second if limits.per_second else 0.0
        self._remaining = (
            None if limits.remaining_min is None else _Remaining(limits.remaining_min, limits.remaining_wait, backoff)
        )
        self._permits = permits
        self._backoff = backoff
        self._under_way = 0
        self._holders: Counter[int] = Counter()
        self._queue: deque[_Waiter] = deque()
        self._due = 0.0

    def take(self, look: Look) -> Permit:
        """Wait for a permit to send a request; closing the response releases it.

        Args:
            look: Sends a request whose response tells the remaining requests.

        Raises:
            NetworkError: the host was closed meanwhile.
        """
        waiter = _Waiter(threading.get_ident())
        with self._permits.lock:
            first = waiter.thread not in self._permits.holding
            self._queue.append(waiter)
            self._permits.waiting.add(waiter.thread)
            self._serve()
        permit = Permit(self, waiter.thread)
        try:
            if not waiter.granted.is_set():
                self._backoff.wait_for(waiter.granted)
            self._backoff.wait()
            if first and self._remaining is not None:
                self._remaining.wait(look)
        except BaseException:
            with self._permits.lock:
                queued = waiter in self._queue
                if queued:
                    self._queue.remove(waiter)
                    self._permits.waiting.discard(waiter.thread)
            if not queued:
                permit.release()
            raise
        return permit

    def space(self) -> None:
        """Wait until the next request may follow the one before it.

        Raises:
            NetworkError: the host was closed meanwhile.
        """
        if self._interval:
            with self._permits.lock:
                now = time.monotonic()
                due = max(now, self._due)
                self._due = due + self._interval
            self._backoff.wait(due - now)

    def responded(self, call: Probe, headers: Mapping[str, str]) -> None:
        """Read the remaining requests from a response."""
        if self._remaining is not None:
            self._remaining.responded(call, headers)

    def wake(self) -> None:
        """Wake all threads after the host was closed."""
        with self._permits.lock:
            for waiter in self._queue:
                waiter.granted.set()

    def release(self, holder: int) -> None:
        """Return a permit of the thread `holder`."""
        with self._permits.lock:
            self._under_way -= 1
            for count in (self._holders, self._permits.holding):
                count[holder] -= 1
                if not count[holder]:
                    del count[holder]
            self._serve()

    def _serve(self) -> None:
        """Grant permits to waiting threads."""
        while self._queue:
            begun = next((waiter for waiter in self._queue if waiter.thread in self._permits.holding), None)
            if self._limit is None or self._under_way < self._limit:
                self._grant(begun or self._queue[0])
            elif begun is not None and all(thread in self._permits.waiting for thread in self._holders):
                self._grant(begun)
            else:
                return

    def _grant(self, waiter: _Waiter) -> None:
        self._queue.remove(waiter)
        self._permits.waiting.discard(waiter.thread)
        self._under_way += 1
        self._holders[waiter.thread] += 1
        self._permits.holding[waiter.thread] += 1
        waiter.granted.set()


class Permit:
    """The right to send one request."""

    def __init__(self, limiter: RequestLimiter, holder: int) -> None:
        self._limiter: RequestLimiter | None = limiter
        self._holder = holder

    def release(self) -> None:
        """End the request; any thread may call this, more than once."""
        limiter, self._limiter = self._limiter, None
        if limiter is not None:
            limiter.release(self._holder)


@dataclass(eq=False, slots=True)
class _Waiter:
    thread: int
    granted: threading.Event = field(default_factory=threading.Event)


class _Remaining:
    """Remaining requests that a host reports, and the wait for more (draft-ietf-httpapi-ratelimit-headers)."""

    def __init__(self, least: int, pause: float, backoff: Backoff) -> None:
        self._least = least
        self._pause = pause
        self._backoff = backoff
        self._left: int | None = None
        self._asked: Probe | None = None
        self._looking = threading.Lock()

    def responded(self, call: Probe, headers: Mapping[str, str]) -> None:
        left = remaining(headers)
        if left is not None:
            self._left = left
            if call.method in ("GET", "HEAD"):
                self._asked = call

    def wait(self, look: Look) -> None:
        if self._low():
            # One thread asks; the others wait for the result.
            with self._looking:
                while self._low():
                    self._backoff.wait(self._pause)
                    # Without a response that tells the number, the next request has to.
                    self._left, call = None, self._asked
                    if call is not None:
                        with suppress(httpx.HTTPError, OcibridgeError):
                            # HEAD is free if only pulls count, as on Docker Hub.
                            look(call.as_head())

    def _low(self) -> bool:
        left = self._left
        return left is not None and left < self._least
