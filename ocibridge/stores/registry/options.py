# SPDX-License-Identifier: Apache-2.0
"""Options of a registry host: names, addresses, TLS, timeouts, retries, rate limits."""

from __future__ import annotations

import ipaddress
import math
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import UsageError
from ...options import Options, option, parse_rate, readable_file
from ...settings import DEFAULT_LIMITS, KiB, Limits

if TYPE_CHECKING:
    import httpx

DOCKER_HUB = frozenset({"docker.io", "index.docker.io", "registry-1.docker.io"})
_HUB_API = "registry-1.docker.io"
_GROUP, _TRANSFER = "registry", "transfer"
_LEAST_BANDWIDTH = 16 * KiB
"""Bytes a second; what is slower runs into the timeouts of registries."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Retries (RFC 9110, section 10.2.3 for `Retry-After`).

    Attributes:
        attempts: Largest number of consecutive attempts without progress.
        unreachable: The same for a host that has never responded: a wrong name or port has to fail fast.
        first: Pause after the first failure in seconds; it doubles with each attempt, with jitter.
        longest: Longest pause without `Retry-After`, in seconds.
        longest_retry_after: Longest accepted `Retry-After`, in seconds; a longer one ends the command at once.
    """

    attempts: int = 5
    unreachable: int = 2
    first: float = 0.5
    longest: float = 30.0
    longest_retry_after: float = 900.0


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Timeouts of single operations, in seconds; there is none for a whole transfer.

    Attributes:
        connect: Seconds for opening a connection.
        read: Seconds without a byte of a response.
        commit: The same for the response to a closing PUT, before which a registry may hash the whole blob.
        write: Seconds in which the host accepts no byte of a request.
        rate: Least bytes per second, in either direction.
        window: Seconds over which `rate` is measured.
    """

    connect: float = 10.0
    read: float = 60.0
    commit: float = 300.0
    write: float = 60.0
    rate: int = 256
    window: float = 60.0


def _retries(text: str) -> Retry:
    if not (text.isascii() and text.isdigit() and len(text) <= 3):
        raise ValueError(f"{text!r} is no whole number of 0 or more")
    tries = int(text) + 1
    return Retry(attempts=tries, unreachable=min(tries, Retry().unreachable))


def _timeouts(text: str) -> Timeouts:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 86_400:
        raise ValueError(f"{text!r} is no number of seconds between 0.1 and 86400")
    usual = Timeouts()
    # A registry that hashes a whole blob gets as much more time as by default.
    commit = seconds * usual.commit / usual.read
    return Timeouts(connect=min(seconds, usual.connect), read=seconds, commit=commit, write=seconds)


def _proxy(text: str) -> str:
    if "@" in text:
        raise ValueError("a proxy with a password is for HTTPS_PROXY and HTTP_PROXY, where nobody else reads it")
    return text


@dataclass(frozen=True, slots=True)
class RateLimits:
    """Limits for requests to a host; there are none by default.

    With any of these, a blob is fetched over one connection, even from a distant host. Token requests are not limited.
    With `concurrent`, a thread must not wait for other threads that use the host while it has a body open.

    Attributes:
        concurrent: Simultaneous requests; a request ends when its response has been read (regsync:
            `reqConcurrent`).
        per_second: Requests per second, evenly spaced (regsync: `reqPerSec`).
        remaining_min: Requests wait while the host reports in `RateLimit-Remaining`, or `RateLimit`, that fewer than
            this remain (regsync: `ratelimit.min`).
        remaining_wait: Seconds between queries for remaining requests (regsync: `ratelimit.retry`).

    Raises:
        UsageError: a number is out of range.
    """

    concurrent: int | None = None
    per_second: float | None = None
    remaining_min: int | None = None
    remaining_wait: float = 300.0

    def __post_init__(self) -> None:
        least = {"concurrent": 1, "per_second": 1e-4, "remaining_min": 0, "remaining_wait": 0.01}
        for name, minimum in least.items():
            value = getattr(self, name)
            if value is not None and not minimum <= value < math.inf:
                raise UsageError(f"{name} cannot be {value}", hint=f"choose a number of at least {minimum}")

    @property
    def limited(self) -> bool:
        """True if there is any limit."""
        return (self.concurrent, self.per_second, self.remaining_min) != (None, None, None)


@dataclass(frozen=True, kw_only=True)
class RegistryOptions(Options):
    """Options for a registry.

    Attributes:
        plain_http: True for HTTP, False for HTTPS, None for HTTP on loopback hosts only, unless an option for TLS is
            given, or the host turns out to use TLS.
        insecure: Do not verify the TLS certificate.
        ca_file: PEM file of the certificate authorities to trust for the registry.
        cert_file: PEM file of the client certificate, for the registry itself only.
        key_file: PEM file of its key, where it is not in `cert_file`.
        registry_config: Credential file to use instead of those of docker and podman.
        username: User to use instead of a stored one.
        password: Password of `username`.
        limits: See `ocibridge.settings.Limits`.
        retries: See `Retry`.
        timeouts: See `Timeouts`.
        rate_limits: See `RateLimits`.
        bandwidth: Bytes per second to and from the host, over all connections; None does not limit them.
        proxy: Address of the proxy to use instead of the one that the environment names; an empty one is none at all.
        per_host: Options by registry host. Each stands in where these options have their default.
        transport: Transport for every request: any `httpx.BaseTransport`, such as
            `httpx.MockTransport`. It is responsible for proxies and TLS.
    """

    plain_http: bool | None = option(
        None,
        help="use HTTP, or never use it (default: HTTP for loopback hosts only)",
        negative=True,
        group=_GROUP,
    )
    insecure: bool = option(False, help="do not verify the TLS certificate", group=_GROUP)
    ca_file: Path | None = option(
        None, help="certificate authorities to trust (PEM)", metavar="FILE", parse=readable_file, group=_GROUP
    )
    cert_file: Path | None = option(
        None, help="client certificate (PEM)", metavar="FILE", parse=readable_file, group=_GROUP
    )
    key_file: Path | None = option(
        None, help="key of the client certificate (PEM)", metavar="FILE", parse=readable_file, group=_GROUP
    )
    registry_config: Path | None = option(
        None, help="credential file, instead of those of docker and podman", metavar="FILE", parse=Path, group=_GROUP
    )
    username: str | None = option(
        None, help="user name, instead of stored credentials", metavar="USER", short="-u", group=_GROUP
    )
    password: str | None = field(default=None, repr=False)
    proxy: str | None = option(
        None,
        help="proxy to use, instead of HTTPS_PROXY or HTTP_PROXY; '' is none at all",
        metavar="URL",
        parse=_proxy,
        group=_GROUP,
    )
    bandwidth: int | None = option(
        None,
        help="bytes a second to and from each registry, such as 50MiB (default: no limit)",
        metavar="RATE",
        parse=parse_rate,
        group=_TRANSFER,
    )
    retries: Retry = option(
        Retry(),
        help="how often a request that fails is sent again while nothing more arrives (default: 4)",
        metavar="N",
        parse=_retries,
        group=_TRANSFER,
    )
    timeouts: Timeouts = option(
        Timeouts(),
        help="seconds without a byte after which a request has failed (default: 60)",
        metavar="SECONDS",
        flag="--timeout",
        parse=_timeouts,
        group=_TRANSFER,
    )
    limits: Limits = DEFAULT_LIMITS
    rate_limits: RateLimits = RateLimits()
    transport: httpx.BaseTransport | None = None
    per_host: tuple[tuple[str, RegistryOptions], ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bandwidth is not None and self.bandwidth < _LEAST_BANDWIDTH:
            raise UsageError(
                f"a bandwidth of {self.bandwidth} bytes per second is less than registries wait for",
                hint="give at least 16KiB",
            )

    def for_host(self, host: str) -> RegistryOptions:
        """The options for a host: these, with what `per_host` says of it where these have a default."""
        known = dict(self.per_host).get(host.lower())
        if known is None:
            return self
        names = [each.name for each in fields(self) if getattr(self, each.name) == each.default]
        return replace(self, **{name: getattr(known, name) for name in names}, per_host=())


def is_local(hostname: str) -> bool:
    """Return whether a host name without port can only mean this machine or its link."""
    if hostname.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(hostname.strip("[]"))
    except ValueError:
        return False
    return address.is_loopback or address.is_link_local or address.is_unspecified


def is_loopback(hostname: str) -> bool:
    """Return whether a host name without port is `localhost` or a loopback address."""
    if hostname.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(hostname.strip("[]")).is_loopback
    except ValueError:
        return False


def base_url(host: str, options: RegistryOptions | None = None) -> str:
    """The address of a registry host's API, such as `https://registry-1.docker.io` for `docker.io`."""
    address = _HUB_API if host in DOCKER_HUB else host
    hostname = address[: address.rindex("]") + 1] if "]" in address else address.partition(":")[0]
    options = options.for_host(host) if options else None
    plain = options.plain_http if options else None
    if plain is None:
        tls = options is not None and (options.insecure or options.ca_file or options.cert_file)
        plain = is_loopback(hostname) and not tls
    return f"{'http' if plain else 'https'}://{address}"


def without_secrets(options: RegistryOptions) -> RegistryOptions:
    """The same options without user and password, for another host than the one they were given for."""
    return replace(options, username=None, password=None)
