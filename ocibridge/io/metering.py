# SPDX-License-Identifier: Apache-2.0
"""A transport that logs each request in one line without secrets, and keeps to a bandwidth."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator

import httpx

from ..errors import human_size
from ..settings import KiB, MiB

log = logging.getLogger("ocibridge.http")
"""Each request is a line of level DEBUG: method, address, status, bytes of the bodies, seconds."""
_PUBLIC = frozenset({"digest", "from", "mount", "n", "last", "artifactType", "service", "scope"})
"""Parameters of the distribution specification whose values are no secrets."""
_LEAST_PART = 16 * KiB

Limit = Callable[[int], None]
"""Waits until so many bytes may pass."""


class MeteredTransport(httpx.BaseTransport):
    """Another transport, whose requests are logged, and whose bodies pass at a limited rate.

    Args:
        inner: The transport.
        limit: See `Limit`; None limits nothing.
        rate: Bytes a second that `limit` lets pass, of which bodies are given in parts; 0 gives them as they come.
    """

    def __init__(self, inner: httpx.BaseTransport, limit: Limit | None = None, rate: int = 0) -> None:
        self._inner = inner
        self._limit = limit
        self._part = max(_LEAST_PART, min(MiB, rate // 8))

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """See `httpx.BaseTransport`."""
        exchange = _Exchange(request)
        assert isinstance(request.stream, httpx.SyncByteStream)
        request.stream = _Metered(request.stream, exchange.sent, self._limit, self._part)
        try:
            response = self._inner.handle_request(request)
        except Exception as exc:
            exchange.end(f"failed ({type(exc).__name__})")
            raise
        assert isinstance(response.stream, httpx.SyncByteStream)
        status = str(response.status_code)
        response.stream = _Metered(
            response.stream, exchange.received, self._limit, self._part, lambda: exchange.end(status)
        )
        return response

    def close(self) -> None:
        """Close the other transport."""
        self._inner.close()


class _Exchange:
    """A request and its response, logged once."""

    def __init__(self, request: httpx.Request) -> None:
        self._method = request.method
        self._url = request.url
        self._started = time.monotonic()
        self._sent = self._received = 0
        self._ended = False

    def sent(self, count: int) -> None:
        self._sent += count

    def received(self, count: int) -> None:
        self._received += count

    def end(self, outcome: str) -> None:
        if self._ended:
            return
        self._ended = True
        sent = f", sent {human_size(self._sent)}" if self._sent else ""
        received = f", received {human_size(self._received)}" if self._received else ""
        seconds = time.monotonic() - self._started
        log.debug("%s %s %s%s%s, %.2f s", self._method, shown(self._url), outcome, sent, received, seconds)


class _Metered(httpx.SyncByteStream):
    def __init__(
        self,
        inner: httpx.SyncByteStream,
        count: Callable[[int], None],
        limit: Limit | None,
        part: int,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self._inner = inner
        self._count = count
        self._limit = limit
        self._part = part
        self._on_close = on_close

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._inner:
            self._count(len(piece))
            if self._limit is None:
                yield piece
                continue
            for start in range(0, len(piece), self._part):
                part = piece[start : start + self._part]
                self._limit(len(part))
                yield part

    def close(self) -> None:
        try:
            self._inner.close()
        finally:
            if self._on_close is not None:
                self._on_close()


def logged_transport() -> httpx.BaseTransport | None:
    """A transport without proxies whose requests are logged, where somebody wants to see them; else None."""
    return MeteredTransport(httpx.HTTPTransport(trust_env=False)) if log.isEnabledFor(logging.DEBUG) else None


def shown(url: httpx.URL) -> str:
    """An address for people, without what may be secret: no user, and of the query only what is known to be public.

    Example:
        >>> shown(httpx.URL("https://r.example/v2/a/blobs/uploads/7?_state=abc&digest=sha256:1"))
        'https://r.example/v2/a/blobs/uploads/7?_state=…&digest=sha256:1'
    """
    query = "&".join(f"{name}={value if name in _PUBLIC else '…'}" for name, value in url.params.multi_items())
    address = str(url.copy_with(userinfo=b"", query=None, fragment=None))
    return f"{address}?{query}" if query else address
