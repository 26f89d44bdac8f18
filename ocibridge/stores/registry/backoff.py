# SPDX-License-Identifier: Apache-2.0
"""Waiting: one state per host, shared by all that talk to it."""

from __future__ import annotations

import random
import re
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime

import httpx

from ...errors import NetworkError
from .options import Retry
from .problems import causes

_SECONDS = re.compile(r"[0-9]{1,9}")
_QUOTA = re.compile(r"[^;]*;\s*r=0\s*;\s*t=([0-9]{1,9})\s*(?:;.*)?")
_LEFT = re.compile(r"(?:^|[;,\s])(?:r|remaining)=([0-9]{1,9})(?![0-9])")
_FINAL = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)


@dataclass(frozen=True, slots=True)
class HostStats:
    """What a host has cost so far.

    Attributes:
        requests: Requests sent, to the registry itself or for it to token servers and storage hosts.
        retries: Tries after one that failed.
        waited: Seconds that threads have waited for their turn or for the next try, summed over the threads.
    """

    requests: int = 0
    retries: int = 0
    waited: float = 0.0

    def __add__(self, other: HostStats) -> HostStats:
        return HostStats(self.requests + other.requests, self.retries + other.retries, self.waited + other.waited)


class Tally:
    """Counts what `HostStats` tells."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests = self._retries = 0
        self._waited = 0.0

    def request(self) -> None:
        """A request is sent."""
        with self._lock:
            self._requests += 1

    def retry(self) -> None:
        """A request will be sent again."""
        with self._lock:
            self._retries += 1

    def wait(self, seconds: float) -> None:
        """Somebody has waited."""
        with self._lock:
            self._waited += seconds

    @property
    def stats(self) -> HostStats:
        """The sums at this moment."""
        with self._lock:
            return HostStats(self._requests, self._retries, self._waited)


class Backoff:
    """What the threads that use one host know together.

    Attributes:
        answered: Whether the host has answered at all.
        tally: Where waiting is counted.
    """

    def __init__(self) -> None:
        self.answered = False
        self.tally = Tally()
        self._until = 0.0
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def hold(self, seconds: float) -> None:
        """Let nobody send a request for this many seconds."""
        with self._lock:
            self._until = max(self._until, time.monotonic() + seconds)

    def wait(self, seconds: float = 0.0) -> None:
        """Sleep for `seconds`, and as long as the host is held.

        Raises:
            NetworkError: the host was closed meanwhile.
        """
        start = time.monotonic()
        until = max(self._until, start + seconds)
        if until > start:
            while (left := until - time.monotonic()) > 0 and not self._stopped.is_set():
                self._stopped.wait(left)
                until = max(until, self._until)
            self.tally.wait(time.monotonic() - start)
        self._go_on()

    def wait_for(self, event: threading.Event) -> None:
        """Sleep until `event`, which somebody has to set after `stop`, too. Raises as `wait` does."""
        start = time.monotonic()
        self._go_on()
        event.wait()
        self.tally.wait(time.monotonic() - start)
        self._go_on()

    def _go_on(self) -> None:
        if self._stopped.is_set():
            raise NetworkError("the connection was closed by this program")

    def stop(self) -> None:
        """Wake and stop everybody who waits."""
        self._stopped.set()


def is_transient(status: int) -> bool:
    """Whether the same request may succeed later: 408, 429 and 5xx except 501 and 505."""
    return status in (408, 429) or (status >= 500 and status not in (501, 505))


def allowed_tries(exc: Exception, retry: Retry, answered: bool) -> int:
    """How many tries in a row may end with this exception."""
    if isinstance(exc, _FINAL):
        return 1
    chain = list(causes(exc))
    if any(isinstance(cause, ssl.SSLError) for cause in chain) and isinstance(exc, httpx.ConnectError):
        return 1
    if any(isinstance(cause, socket.gaierror) for cause in chain) and not answered:
        return 1
    if isinstance(exc, httpx.ConnectError | httpx.ConnectTimeout) and not answered:
        return retry.unreachable
    return retry.attempts


def pause(failures: int, retry: Retry) -> float:
    """Seconds to wait after so many failures in a row: exponential, with jitter."""
    full = min(retry.longest, retry.first * 2.0 ** (failures - 1))
    return full * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, guards nothing


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that an answer asks us to wait, if it does: a number or an HTTP date."""
    value = headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(value):
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return max(0.0, (moment - datetime.now(timezone.utc)).total_seconds())


def exhausted(headers: Mapping[str, str]) -> float | None:
    """Seconds until the registry answers again, where an answer says that it was the last for now.

    Both forms of draft-ietf-httpapi-ratelimit-headers: `RateLimit: "x";r=0;t=30`, and the older pair of
    `RateLimit-Remaining: 0` and `RateLimit-Reset: 30`. Docker Hub gives no time, so there is nothing to wait for.
    """
    if headers.get("ratelimit-remaining", "").partition(";")[0].strip() == "0":
        value = headers.get("ratelimit-reset", "").strip()
        return float(value) if _SECONDS.fullmatch(value) else None
    quotas = headers.get("ratelimit")
    if quotas is None:
        return None
    found = (_QUOTA.fullmatch(quota.strip()) for quota in quotas.split(","))
    return max((float(match[1]) for match in found if match), default=None)


def remaining(headers: Mapping[str, str]) -> int | None:
    """Requests that the registry still allows, where an answer says so: the least of several numbers.

    The forms of `exhausted`, Docker Hub's `RateLimit-Remaining: 76;w=21600` among them, and the drafts' earlier
    `RateLimit: limit=100, remaining=76, reset=30`.
    """
    values = (part.partition(";")[0].strip() for part in headers.get("ratelimit-remaining", "").split(","))
    found = [value for value in values if _SECONDS.fullmatch(value)] or _LEFT.findall(headers.get("ratelimit", ""))
    return min(map(int, found), default=None)
