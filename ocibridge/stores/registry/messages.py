# SPDX-License-Identifier: Apache-2.0
"""Requests, and answers whose body is yet to be read.

Less than what httpx has for this, which takes longer to make than a small request takes to be sent.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import httpx

CHALLENGES = "www-authenticate"
_PORTS = {"http": 80, "https": 443}


class Site(NamedTuple):
    """Where a line leads. Addresses of one site have the same origin (RFC 6454, section 4).

    Attributes:
        scheme: `http` or `https`.
        host: Name or address in ASCII and in lower case, an IPv6 address without brackets.
        port: Port.
    """

    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, url: httpx.URL) -> Site:
        """The site of an address."""
        return cls(url.scheme, url.raw_host.decode("ascii").lower(), url.port or _PORTS.get(url.scheme, 0))

    @property
    def netloc(self) -> str:
        """Host and port as a `Host` header has them (RFC 9110, section 7.2)."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS.get(self.scheme) else f"{host}:{self.port}"


class Patience(NamedTuple):
    """Seconds after which a side that does nothing is given up; None waits for ever.

    Attributes:
        connect: Until a connection stands.
        read: Without a byte of the answer.
        write: Without a byte of the request being taken.
    """

    connect: float | None = None
    read: float | None = None
    write: float | None = None


FOR_EVER = Patience()


@dataclass(slots=True)
class Request:
    """What is sent.

    Attributes:
        method: HTTP method.
        site: Where it is sent.
        target: Path and query, as they go out.
        headers: Header fields but for the length of the body.
        patience: How long the other side may do nothing.
        length: Bytes of the body; None announces none.
        body: The body, piece by piece; it can be asked for again.
    """

    method: str
    site: Site
    target: str
    headers: dict[str, str]
    patience: Patience = FOR_EVER
    length: int | None = None
    body: Iterable[bytes] = ()

    @property
    def where(self) -> str:
        """The whole address."""
        return f"{self.site.scheme}://{self.site.netloc}{self.target}"


def say_where(exc: httpx.HTTPError, request: Request) -> None:
    """Let an error of a line tell what was asked."""
    if isinstance(exc, httpx.RequestError):
        with suppress(httpx.InvalidURL):  # one that is too long
            exc.request = httpx.Request(request.method, request.where)


class Stream(Protocol):
    """A connection, as httpx hands it out (its extension "network_stream")."""

    def get_extra_info(self, name: str, /) -> Any:
        """What is asked for by name: `socket` is the socket."""


class Body(Protocol):
    """The body of an answer, to be read once, in one of two ways."""

    def readinto(self, target: memoryview, /) -> int:
        """Some bytes of it; 0 at its end.

        Raises:
            httpx.HTTPError: the line broke.
        """

    def __iter__(self) -> Iterator[bytes]:
        """It, piece by piece. Raises as `readinto` does."""

    def close(self) -> None:
        """Give its line back, or up where something was not read; more than once does no harm."""


class Reply:
    """An answer.

    Args:
        status: HTTP status.
        headers: Header fields, their names in lower case. Those with one name are joined by commas (RFC 9110, section
            5.3), but for `CHALLENGES`, which are joined by line breaks: one that is odd shall not hide the next.
        body: The body, unread.
        request: What was asked.
        line: What it comes by; None where that is not known.
    """

    __slots__ = ("_then", "body", "headers", "line", "request", "status")

    def __init__(
        self, status: int, headers: Mapping[str, str], body: Body, request: Request, line: Stream | None
    ) -> None:
        self.status = status
        self.headers = headers
        self.body = body
        self.request = request
        self.line = line
        self._then: Callable[[], None] | None = None

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300

    def keep(self, most: int) -> None:
        """Take the start of the body into memory, so many bytes at most, and give the line back."""
        data = bytearray()
        try:
            for piece in self.body:
                data += piece
                if len(data) > most:
                    break
        finally:
            self.body.close()
        self.body = _Kept(data[:most])

    def then(self, done: Callable[[], None]) -> None:
        """Call `done` when this is closed."""
        self._then = done

    def close(self) -> None:
        """Give the line back; more than once does no harm."""
        try:
            self.body.close()
        finally:
            then, self._then = self._then, None
            if then is not None:
                then()


class _Kept:
    """A body in memory."""

    def __init__(self, data: bytearray) -> None:
        self._data = io.BytesIO(data)

    def readinto(self, target: memoryview, /) -> int:
        return self._data.readinto(target)

    def __iter__(self) -> Iterator[bytes]:
        yield self._data.read()

    def close(self) -> None:
        """Nothing has to be given back."""
