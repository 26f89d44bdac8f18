# SPDX-License-Identifier: Apache-2.0
"""Whose turn it is to ask a host for something, where a user limits what is asked of it (`Manners`)."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import httpx

from ...errors import OcibridgeError
from .backoff import Backoff, remaining
from .options import Manners

if TYPE_CHECKING:
    from .http import Call

Look = Callable[["Call"], object]
"""Send a request for the sake of the headers of its answer."""


_lock = threading.Lock()
_holding: Counter[int] = Counter()
_waiting: set[int] = set()


class Turns:
    """The turns of all threads that use one host, first come, first served.

    A thread may want a second turn while it has one, here or at another host: for the bytes of an upload, say. It comes
    before those that have none, so that what is begun ends; and it goes on above the limit where all who could give a
    turn back wait themselves.

    Args:
        manners: What is allowed.
        backoff: The host's; whoever stops it calls `wake` after it.
    """

    def __init__(self, manners: Manners, backoff: Backoff) -> None:
        self._limit = manners.concurrent
        self._interval = 1 / manners.per_second if manners.per_second else 0.0
        self._quota = None if manners.quota_min is None else _Quota(manners.quota_min, manners.quota_wait, backoff)
        self._backoff = backoff
        self._under_way = 0
        self._holders: Counter[int] = Counter()
        self._queue: deque[_Waiter] = deque()
        self._due = 0.0

    def take(self, look: Look) -> Turn:
        """Wait for the turn to send a request, whose end is to be told to what this gives.

        Args:
            look: How the host is asked for its quota.

        Raises:
            NetworkError: the host was closed meanwhile.
        """
        waiter = _Waiter(threading.get_ident())
        with _lock:
            first = waiter.thread not in _holding
            self._queue.append(waiter)
            _waiting.add(waiter.thread)
            self._serve()
        turn = Turn(self, waiter.thread)
        try:
            if not waiter.granted.is_set():
                self._backoff.wait_for(waiter.granted)
            self._backoff.wait()
            if first and self._quota is not None:
                self._quota.wait(look)
        except BaseException:
            with _lock:
                queued = waiter in self._queue
                if queued:
                    self._queue.remove(waiter)
                    _waiting.discard(waiter.thread)
            if not queued:
                turn.end()
            raise
        return turn

    def space(self) -> None:
        """Wait until the next request may follow the one before it.

        Raises:
            NetworkError: the host was closed meanwhile.
        """
        if self._interval:
            with _lock:
                now = time.monotonic()
                due = max(now, self._due)
                self._due = due + self._interval
            self._backoff.wait(due - now)

    def heed(self, call: Call, headers: Mapping[str, str]) -> None:
        """Take from the answer to a call what is left of the quota."""
        if self._quota is not None:
            self._quota.heed(call, headers)

    def wake(self) -> None:
        """Let everybody see that the host was closed."""
        with _lock:
            for waiter in self._queue:
                waiter.granted.set()

    def end(self, holder: int) -> None:
        """A request of the thread `holder` is over."""
        with _lock:
            self._under_way -= 1
            for count in (self._holders, _holding):
                count[holder] -= 1
                if not count[holder]:
                    del count[holder]
            self._serve()

    def _serve(self) -> None:
        """Give turns to those who can have one."""
        while self._queue:
            begun = next((waiter for waiter in self._queue if waiter.thread in _holding), None)
            if self._limit is None or self._under_way < self._limit:
                self._grant(begun or self._queue[0])
            elif begun is not None and all(thread in _waiting for thread in self._holders):
                self._grant(begun)
            else:
                return

    def _grant(self, waiter: _Waiter) -> None:
        self._queue.remove(waiter)
        _waiting.discard(waiter.thread)
        self._under_way += 1
        self._holders[waiter.thread] += 1
        _holding[waiter.thread] += 1
        waiter.granted.set()


class Turn:
    """One request that is under way."""

    def __init__(self, turns: Turns, holder: int) -> None:
        self._turns: Turns | None = turns
        self._holder = holder

    def end(self) -> None:
        """The request is over; any thread may say so, more than once."""
        turns, self._turns = self._turns, None
        if turns is not None:
            turns.end(self._holder)


@dataclass(eq=False, slots=True)
class _Waiter:
    thread: int
    granted: threading.Event = field(default_factory=threading.Event)


class _Quota:
    """What a host says is left of its quota, and the wait for more of it (draft-ietf-httpapi-ratelimit-headers)."""

    def __init__(self, least: int, pause: float, backoff: Backoff) -> None:
        self._least = least
        self._pause = pause
        self._backoff = backoff
        self._left: int | None = None
        self._asked: Call | None = None
        self._looking = threading.Lock()

    def heed(self, call: Call, headers: Mapping[str, str]) -> None:
        left = remaining(headers)
        if left is not None:
            self._left = left
            if call.method in ("GET", "HEAD"):
                self._asked = call

    def wait(self, look: Look) -> None:
        if self._low():
            # One thread looks; the others wait for what it sees.
            with self._looking:
                while self._low():
                    self._backoff.wait(self._pause)
                    # Where nothing tells any more, the request itself has to find out.
                    self._left, call = None, self._asked
                    if call is not None:
                        headers = {name: value for name, value in call.headers.items() if name.lower() != "range"}
                        with suppress(httpx.HTTPError, OcibridgeError):
                            # HEAD is free where quotas count pulls, as on Docker Hub.
                            look(replace(call, method="HEAD", headers=headers, follow=False))

    def _low(self) -> bool:
        left = self._left
        return left is not None and left < self._least
