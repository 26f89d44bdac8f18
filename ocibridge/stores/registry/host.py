# SPDX-License-Identifier: Apache-2.0
"""Shared state of a registry host: clients, tokens, back-off, limits, capabilities."""

from __future__ import annotations

import logging
import math
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urljoin

import httpx

from ...errors import StoreError, UsageError
from ...io.bucket import TokenBucket
from ...settings import KiB
from .auth import Authenticator
from .credentials import CredentialSources
from .errors import printable
from .limits import Permits, RequestLimiter
from .options import RegistryOptions, base_url, is_local
from .retry import Backoff, HostStats, exhausted
from .transport import Connections, new_client

READ_AHEAD = 6
"""Ranges of blobs that are read ahead from one host at a time, and kept in memory until they are read."""
UNSAFE = "the registry, or a proxy before it, is not set up safely; ask its administrator"
_MAX_WARNINGS = 20
_MAX_WARNING = 300
_WARNING_HEADER = 16 * KiB
_WARNING = re.compile(r'(?:^|,)\s*299 - "((?:[^"\\]|\\.)*)"')
_IMPATIENT = 4
"""Divisor of the timeouts of a host that has been silent, until it responds again."""
_NOT_CONNECTED = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.ProxyError,
    httpx.LocalProtocolError,
    httpx.UnsupportedProtocol,
)
_log = logging.getLogger("ocibridge")
_log.addHandler(logging.NullHandler())


@dataclass
class HostCapabilities:
    """Capabilities of a registry, as observed; all are assumed until a request fails.

    Attributes:
        streams: Accepts a blob by PATCH whose digest is not known yet.
        referrers: Has the referrers API ("Listing Referrers").
        head_blobs: Supports HEAD requests for blobs.
    """

    streams: bool = True
    referrers: bool = True
    head_blobs: bool = True


class Host:
    """Everything that one registry host has in this process.

    Args:
        name: Host with its port, as the user wrote it.
        options: See `RegistryOptions`.
        permits: Permits of all hosts that share threads.

    Attributes:
        origin: Its address.
        base: The same as text, without a slash at its end.
        can: See `Capabilities`.
        backoff: See `Backoff`.
        auth: See `Authenticator`.
        limiter: Where requests are limited (`RateLimits`).
        read_ahead: Permits to read ranges ahead.

    Raises:
        UsageError: the options cannot work.
    """

    def __init__(self, name: str, options: RegistryOptions, permits: Permits) -> None:
        self.name = name
        self.options = options
        self.can = HostCapabilities()
        self.backoff = Backoff()
        limits = options.rate_limits
        self.limiter = RequestLimiter(limits, self.backoff, permits) if limits.limited else None
        self._bucket = TokenBucket(options.bandwidth) if options.bandwidth else None
        self._limit = self._pass if self._bucket else None
        self.read_ahead = threading.Semaphore(READ_AHEAD)
        self._lock = threading.Lock()
        self._scheme_lock = threading.Lock()
        self._connections = Connections(self._on_silence, options.timeouts.connect)
        self._clients: dict[tuple[str, str, int | None], httpx.Client] = {}
        self._warnings: list[str] = []
        self._silent = False
        self._reported = -math.inf
        try:
            self.origin = httpx.URL(base_url(name, options))
        except httpx.InvalidURL as exc:
            raise UsageError(f"{name} is not a valid registry host ({exc})") from None
        self.base = str(self.origin).rstrip("/")
        self._scheme_is_known = options.plain_http is not None or self.origin.scheme == "https"
        self.auth = Authenticator(name, self.origin, CredentialSources(name, options))

    @property
    def stats(self) -> HostStats:
        """Statistics of the requests to the host."""
        return self.backoff.tally.stats

    @property
    def warnings(self) -> list[str]:
        """Warnings of the registry: at most 20 texts, without secrets (distribution-spec, "Warnings")."""
        with self._lock:
            return [self.auth.redact(text) for text in self._warnings]

    @property
    def latency(self) -> float:
        """The least number of seconds that a connection took to be made; 0 where that is unknown, or does not count.

        A host whose requests are limited is asked for each blob as a whole, however far it is.
        """
        latency = self._connections.latency
        return latency if self.limiter is None and math.isfinite(latency) else 0.0

    def is_own(self, url: httpx.URL) -> bool:
        """Return whether an address has the origin of this host (RFC 6454, section 4)."""
        return origin_of(url) == origin_of(self.origin)

    def client(self, url: httpx.URL) -> httpx.Client:
        """The one client for the origin of an address: this host, or one that it sends us to.

        Raises:
            UsageError: the certificate files cannot be used.
            SourceError: a certificate file cannot be read.
            NetworkError: the proxy that the environment names cannot be used.
        """
        origin = origin_of(url)
        with self._lock:
            if origin not in self._clients:
                self._clients[origin] = new_client(
                    self.options, url, self.is_own(url), self._connections, limit=self._limit
                )
            return self._clients[origin]

    def timeout(self, method: str) -> dict[str, float | None]:
        """The timeouts of a request, as httpx's extension `timeout` has them."""
        timeouts = self.options.timeouts
        read = timeouts.commit if method == "PUT" else timeouts.read
        if self._silent and method in ("GET", "HEAD"):
            read /= _IMPATIENT
        return {"connect": timeouts.connect, "read": read, "write": timeouts.write, "pool": None}

    def resolve(self, target: str, what: str, base: httpx.URL | None = None) -> httpx.URL:
        """A path on this host, or a `Location` or link that a registry gave.

        Args:
            target: The path, or what the registry gave.
            what: Whose operation it is, for messages: `host/repository: pulling the blob`.
            base: The address that gave it; None for this host.

        Raises:
            StoreError: it leads from HTTPS to HTTP, into this machine, or nowhere.
        """
        base = base or self.origin
        try:
            # As text: httpx would bring the query, which is the registry's own, into another form.
            ours = base is self.origin and target.startswith("/v2/")
            url = httpx.URL(self.base + target if ours else urljoin(str(base), target))
        except (httpx.InvalidURL, ValueError):
            raise StoreError(f"{what} failed because the registry gave no valid address", hint=UNSAFE) from None
        reason = None
        if url.scheme not in ("http", "https") or not url.host or url.userinfo:
            reason = "an address that is no plain web address"
        elif url.scheme == "http" and base.scheme == "https":
            reason = f"{url.host} without encryption"
        elif is_local(url.host) and not is_local(self.origin.host):
            reason = f"{url.host}, an address of this machine"
        if reason:
            raise StoreError(f"{what} failed because the registry pointed to {reason}", hint=UNSAFE)
        return url

    def responded(self, headers: Mapping[str, str]) -> None:
        """Take from the header of a response what concerns the host as a whole."""
        self.backoff.connected = self.backoff.responded = self._scheme_is_known = True
        self._silent = False
        if "warning" in headers:
            self._warn(headers["warning"])
        seconds = exhausted(headers) or 0.0
        if seconds and seconds <= self.options.retries.longest_retry_after:
            self.backoff.delay(seconds)

    def failed(self, exc: httpx.HTTPError) -> None:
        """Take from a request that failed what concerns the host as a whole."""
        if not isinstance(exc, _NOT_CONNECTED):
            # Who breaks a connection is there, even without a response.
            self.backoff.connected = True
        if isinstance(exc, httpx.ReadTimeout):
            self._silent = True

    def speaks_tls(self, url: httpx.URL) -> bool:
        """Return whether a loopback host that was assumed to use HTTP uses TLS, which is then used from now on.

        Args:
            url: What was asked without TLS, maybe while another thread found out.
        """
        with self._scheme_lock:
            if not self._scheme_is_known and self.is_own(url):
                self._scheme_is_known = True
                if self._responds_over_tls():
                    self.origin = self.origin.copy_with(scheme="https")
                    self.base = str(self.origin).rstrip("/")
                    self.auth.moved(self.origin)
            return self.is_own(url.copy_with(scheme="https"))

    def _pass(self, count: int) -> None:
        """Wait until so many bytes may pass."""
        assert self._bucket is not None
        if wait := self._bucket.reserve(count):
            self.backoff.wait(wait)

    def _responds_over_tls(self) -> bool:
        url = httpx.URL(f"https://{self.name}/v2/")
        try:
            with new_client(self.options, url, True, self._connections, verify=False) as client:
                # Any response will do, with any certificate: nothing secret is sent, and nothing of it is used.
                client.get(url, timeout=httpx.Timeout(self.options.timeouts.connect))
        except httpx.HTTPError:
            return False
        return True

    def interrupt(self) -> None:
        """Break every connection, so that all who wait for one stop at once; for another thread."""
        self._stop()
        self._connections.interrupt()

    def close(self) -> None:
        """Give back all connections and wake all who wait."""
        self._stop()
        with self._lock:
            for client in self._clients.values():
                client.close()

    def _stop(self) -> None:
        self.backoff.stop()
        if self.limiter is not None:
            self.limiter.wake()

    def _warn(self, header: str) -> None:
        # Code 299 and agent `-` alone are the registry's own.
        for found in _WARNING.finditer(header[:_WARNING_HEADER]):
            text = printable(re.sub(r"\\(.)", r"\1", found[1]), _MAX_WARNING).strip()
            with self._lock:
                if text and text not in self._warnings and len(self._warnings) < _MAX_WARNINGS:
                    self._warnings.append(text)

    def _on_silence(self, seconds: float, left: float) -> None:
        with self._lock:
            now = time.monotonic()
            known, self._reported = now - self._reported < seconds, now
        if known:
            return  # by another connection
        _log.warning("%s has sent nothing for %.0f s; waiting for it %.0f s longer", self.name, seconds, left)


def origin_of(url: httpx.URL) -> tuple[str, str, int | None]:
    """Scheme, host and port of an address, which are its origin (RFC 6454, section 4)."""
    return url.scheme, url.host.lower(), url.port
