# SPDX-License-Identifier: Apache-2.0
"""How a registry host is reached: names, addresses, TLS, timeouts, retries, rate limits."""

from __future__ import annotations

import ipaddress
import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import UsageError
from ...settings import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    import httpx

DOCKER_HUB = frozenset({"docker.io", "index.docker.io", "registry-1.docker.io"})
_HUB_API = "registry-1.docker.io"


@dataclass(frozen=True, slots=True)
class Retry:
    """When to try again (RFC 9110, section 10.2.3 for `Retry-After`).

    Attributes:
        attempts: Tries in a row that may fail without any progress between them.
        unreachable: The same for a host that has never answered: a wrong name or port must fail fast.
        first: Pause after the first failure in seconds; it doubles from try to try, with jitter.
        longest: Longest pause that we choose ourselves, in seconds.
        longest_retry_after: Longest `Retry-After` that is obeyed, in seconds; a longer one ends the command at once.
    """

    attempts: int = 5
    unreachable: int = 2
    first: float = 0.5
    longest: float = 30.0
    longest_retry_after: float = 900.0


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a host may be silent. There is none for a whole transfer, which takes as long as it takes.

    Attributes:
        connect: Seconds until a connection stands.
        read: Seconds without a byte of an answer.
        commit: The same for the answer to a closing PUT, before which a registry may hash the whole blob.
        write: Seconds in which the host takes nothing at all of a request.
        rate: Least bytes per second, in either direction.
        window: Seconds over which `rate` is taken.
    """

    connect: float = 10.0
    read: float = 60.0
    commit: float = 300.0
    write: float = 60.0
    rate: int = 256
    window: float = 60.0


@dataclass(frozen=True, slots=True)
class RateLimits:
    """How much is asked of a host at most; by default, nothing is held back.

    With any of these, a blob comes over one connection, however far the host is. Requests to token servers are free.
    Where `concurrent` is set, a thread must not wait for other threads that use the host while it has a body open.

    Attributes:
        concurrent: Requests under way at the same time, which they are until their answer is read (regsync:
            `reqConcurrent`).
        per_second: Requests per second, evenly spaced (regsync: `reqPerSec`).
        quota_min: Requests are held while the host says in `RateLimit-Remaining`, or `RateLimit`, that fewer than
            this are left (regsync: `ratelimit.min`).
        quota_wait: Seconds after which the host is asked again whether there are more (regsync: `ratelimit.retry`).

    Raises:
        UsageError: a number is not one that can work.
    """

    concurrent: int | None = None
    per_second: float | None = None
    quota_min: int | None = None
    quota_wait: float = 300.0

    def __post_init__(self) -> None:
        least = {"concurrent": 1, "per_second": 1e-4, "quota_min": 0, "quota_wait": 0.01}
        for name, minimum in least.items():
            value = getattr(self, name)
            if value is not None and not minimum <= value < math.inf:
                raise UsageError(f"{name} cannot be {value}", hint=f"choose a number of at least {minimum}")

    @property
    def limited(self) -> bool:
        """Whether anything is held back."""
        return (self.concurrent, self.per_second, self.quota_min) != (None, None, None)


@dataclass(frozen=True, slots=True)
class RegistryOptions:
    """How to talk to a registry; the command line's flags of the same names.

    Attributes:
        plain_http: True for HTTP, False for HTTPS, None for HTTP on loopback hosts only, unless an option for TLS is
            given, or the host is found to speak TLS.
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
        transport: Used for every request instead of connections of our own: any `httpx.BaseTransport`, such as
            `httpx.MockTransport`. Proxies and TLS are then its own business.
    """

    plain_http: bool | None = None
    insecure: bool = False
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    registry_config: Path | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    limits: Limits = DEFAULT_LIMITS
    retries: Retry = Retry()
    timeouts: Timeouts = Timeouts()
    rate_limits: RateLimits = RateLimits()
    transport: httpx.BaseTransport | None = None


def is_local(hostname: str) -> bool:
    """Whether a host name without port can only mean this machine or its link."""
    if hostname.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(hostname.strip("[]"))
    except ValueError:
        return False
    return address.is_loopback or address.is_link_local or address.is_unspecified


def is_loopback(hostname: str) -> bool:
    """Whether a host name without port is `localhost` or a loopback address."""
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
    plain = options.plain_http if options else None
    if plain is None:
        tls = options is not None and (options.insecure or options.ca_file or options.cert_file)
        plain = is_loopback(hostname) and not tls
    return f"{'http' if plain else 'https'}://{address}"


def without_secrets(options: RegistryOptions) -> RegistryOptions:
    """The same options without user and password, for another host than the one they were given for."""
    return replace(options, username=None, password=None)
