# SPDX-License-Identifier: Apache-2.0
"""When to try again, and when not any more: one back-off per host, shared by all that speak to it."""

from __future__ import annotations

import random
import re
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from socket import gaierror

import httpx

from ...errors import NetworkError, OcibridgeError
from .errors import causes
from .options import Retry

_SECONDS = re.compile(r"[0-9]{1,9}")
_RATE_LIMIT = re.compile(r"[^;]*;\s*r=0\s*;\s*t=([0-9]{1,9})\s*(?:;.*)?")
_LEFT = re.compile(r"(?:^|[;,\s])(?:r|remaining)=([0-9]{1,9})(?![0-9])")
_FINAL = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)


@dataclass(frozen=True, slots=True)
class HostStats:
    """Statistics of the requests to a host.

    Attributes:
        requests: Requests sent, to the registry itself or for it to token servers and storage hosts.
        retries: Tries after one that failed.
        waited: Seconds that threads have waited for a permit or for the next try, summed over the threads.
    """

    requests: int = 0
    retries: int = 0
    waited: float = 0.0

    def __add__(self, other: HostStats) -> HostStats:
        return HostStats(self.requests + other.requests, self.retries + other.retries, self.waited + other.waited)


class HostCounters:
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
        """Count a request that is sent again."""
        with self._lock:
            self._retries += 1

    def wait(self, seconds: float) -> None:
        """Count time spent waiting."""
        with self._lock:
            self._waited += seconds

    @property
    def stats(self) -> HostStats:
        """The sums at this moment."""
        with self._lock:
            return HostStats(self._requests, self._retries, self._waited)


class Backoff:
    """Back-off state of a host, shared by its threads.

    Attributes:
        connected: True after the first connection to the host.
        responded: True after its first response.
        tally: Counters of requests and waiting.
    """

    def __init__(self) -> None:
        self.connected = False
        self.responded = False
        self.tally = HostCounters()
        self._until = 0.0
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def delay(self, seconds: float) -> None:
        """Delay all requests for this many seconds."""
        with self._lock:
            self._until = max(self._until, time.monotonic() + seconds)

    def wait(self, seconds: float = 0.0) -> None:
        """Sleep for `seconds`, and until the back-off of the host ends.

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
        self._check()

    def wait_for(self, event: threading.Event) -> None:
        """Sleep until `event` is set, which has to happen after `stop`, too. Raises as `wait` does."""
        start = time.monotonic()
        self._check()
        event.wait()
        self.tally.wait(time.monotonic() - start)
        self._check()

    def _check(self) -> None:
        if self._stopped.is_set():
            raise NetworkError("the connection was closed by this program")

    def stop(self) -> None:
        """Wake all waiting threads, and end their requests."""
        self._stopped.set()


def is_transient(status: int) -> bool:
    """Return whether the same request may succeed later: 408, 429 and 5xx except 501 and 505."""
    return status in (408, 429) or (status >= 500 and status not in (501, 505))


def allowed_tries(exc: Exception, retry: Retry, connected: bool) -> int:
    """Return the number of consecutive attempts that may end with this exception."""
    if isinstance(exc, _FINAL) or (isinstance(exc, httpx.ProxyError) and not connected):
        return 1
    chain = list(causes(exc))
    if any(isinstance(cause, ssl.SSLError) for cause in chain) and isinstance(exc, httpx.ConnectError):
        return 1
    if any(isinstance(cause, gaierror) for cause in chain) and not connected:
        return 1
    if isinstance(exc, httpx.ConnectError | httpx.ConnectTimeout) and not connected:
        return retry.unreachable
    return retry.attempts


def pause(failures: int, retry: Retry) -> float:
    """Return the seconds to wait after consecutive failures: exponential, with jitter."""
    full = min(retry.longest, retry.first * 2.0 ** (failures - 1))
    return full * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, guards nothing


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of the header `Retry-After`, or None: a number or an HTTP date."""
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
    """Return the seconds until the rate limit is reset, if a response says that no requests are left.

    Both forms of draft-ietf-httpapi-ratelimit-headers: `RateLimit: "x";r=0;t=30`, and the older pair of
    `RateLimit-Remaining: 0` and `RateLimit-Reset: 30`. Docker Hub gives no time.
    """
    if headers.get("ratelimit-remaining", "").partition(";")[0].strip() == "0":
        value = headers.get("ratelimit-reset", "").strip()
        return float(value) if _SECONDS.fullmatch(value) else None
    values = headers.get("ratelimit")
    if values is None:
        return None
    found = (_RATE_LIMIT.fullmatch(value.strip()) for value in values.split(","))
    return max((float(match[1]) for match in found if match), default=None)


def remaining(headers: Mapping[str, str]) -> int | None:
    """Return the number of remaining requests that a response reports, or None: the least of several numbers.

    The forms of `exhausted`, Docker Hub's `RateLimit-Remaining: 76;w=21600` among them, and the drafts' earlier
    `RateLimit: limit=100, remaining=76, reset=30`.
    """
    values = (part.partition(";")[0].strip() for part in headers.get("ratelimit-remaining", "").split(","))
    found = [value for value in values if _SECONDS.fullmatch(value)] or _LEFT.findall(headers.get("ratelimit", ""))
    return min(map(int, found), default=None)


Problem = httpx.Response | httpx.HTTPError
"""Reason of a failed request: a refusal by the registry, or a broken connection."""


class Attempts:
    """Attempts of one operation, counted since its last progress.

    Args:
        backoff: Back-off state of the host.
        retry: See `Retry`.
        error: Makes the error to raise, from the last problem and the number of consecutive attempts.
    """

    def __init__(self, backoff: Backoff, retry: Retry, error: Callable[[Problem, int], OcibridgeError]) -> None:
        self._backoff = backoff
        self._retry = retry
        self._error = error
        self._furthest = 0
        self.failures = 0

    def reached(self, position: int, least: int = 1) -> None:
        """Report progress: if the operation never got this far before, the count of failures is reset.

        Bytes that are fetched or sent again do not count, so that a transfer which always breaks at the same place
        comes to an end.

        Args:
            position: Number of finished bytes.
            least: Least progress in bytes that counts.
        """
        if position >= self._furthest + least:
            self._furthest = position
            self.failures = 0

    def failed(self, problem: Problem, again: bool = False) -> None:
        """Wait before the next attempt.

        Args:
            problem: Result of the last attempt.
            again: Try again even if the status is final.

        Raises:
            OcibridgeError: the attempts are exhausted, or the wait is too long.
        """
        self.failures += 1
        retry, backoff = self._retry, self._backoff
        asked = None
        if isinstance(problem, httpx.Response):
            status = problem.status_code
            tries = retry.attempts if again or is_transient(status) else 1
            asked = retry_after(problem.headers)
            if asked is None and status == 429:
                asked = exhausted(problem.headers)
        else:
            tries = allowed_tries(problem, retry, backoff.connected)
        too_long = asked is not None and asked > retry.longest_retry_after
        if self.failures >= tries or too_long:
            error = self._error(problem, self.failures)
            if too_long:
                error.hint = f"the registry asks to wait {asked:.0f} seconds; try again after that"
            raise error from (problem if isinstance(problem, Exception) else None)
        backoff.tally.retry()
        delay = max(pause(self.failures, retry), asked or 0.0)
        if isinstance(problem, httpx.Response) and problem.status_code in (429, 503):
            backoff.delay(delay)
        backoff.wait(delay)
