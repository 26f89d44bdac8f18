# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 over lines of our own: sockets, kept while they are idle; `Answers` says what comes back (RFC 9112).

In place of httpx's client and its transport, which take several times the processor time for a request: a mirror job is
thousands of small ones. What goes wrong is said in httpx's words.
"""

from __future__ import annotations

import logging
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakSet

import httpx

from ...settings import KiB
from .answers import Answers, LineBody
from .messages import Reply, Request, Site, Stream

IDLE = 20
"""Lines that are kept for the next request."""
IDLE_SECONDS = 30.0
_ONE_PIECE = 16 * KiB
_READ = 64 * KiB
_log = logging.getLogger("httpx")

Given = TypeVar("Given")
Came = TypeVar("Came")
Connected = Callable[[Stream, float], None]
"""Told of each new connection, and of the seconds that it took to be made."""


def interrupt(stream: Stream) -> None:
    """Wake whoever waits for a connection, who then finds it broken; for another thread."""
    with suppress(OSError):
        # Not the method of a TLS socket: that one changes what another thread is using.
        socket.socket.shutdown(stream.get_extra_info("socket"), socket.SHUT_RDWR)


class Line:
    """A connection, which one thread uses at a time.

    Attributes:
        socket: The socket, within TLS where that is spoken.
        since: When it became idle, by the monotonic clock.
    """

    __slots__ = ("__weakref__", "_arrivals", "_seconds", "since", "socket")

    def __init__(self, made: socket.socket) -> None:
        self.socket = made
        self.since = 0.0
        self._seconds: float | None = -1.0
        self._arrivals = _arrivals(made)

    def send(self, data: bytes | memoryview, seconds: float | None) -> None:
        """Send all of `data`; `seconds` is how long the other side may take none of it.

        Raises:
            httpx.WriteError: the line broke.
            httpx.WriteTimeout: it stands still.
        """
        rest = memoryview(data)
        try:
            self._wait(seconds)
            while rest:
                rest = rest[self.socket.send(rest) :]
        except TimeoutError as exc:
            raise httpx.WriteTimeout(str(exc)) from exc
        except OSError as exc:
            raise httpx.WriteError(str(exc)) from exc

    def receive(self, seconds: float | None) -> bytes:
        """What has arrived, or nothing at the end.

        Raises:
            httpx.ReadError: the line broke.
            httpx.ReadTimeout: nothing has come for so many seconds.
        """
        return self._read(self.socket.recv, _READ, seconds)

    def receive_into(self, target: memoryview, seconds: float | None) -> int:
        """See `receive`; the number of bytes that came."""
        return self._read(self.socket.recv_into, target, seconds)

    def usable(self) -> bool:
        """Whether nothing came while it was idle: neither its end, nor an answer that nobody has asked for."""
        if time.monotonic() - self.since > IDLE_SECONDS:
            return False
        try:
            # What TLS has decrypted, and nobody has asked for, is not seen below it.
            if isinstance(self.socket, ssl.SSLSocket) and self.socket.pending():
                return False
            return not self._arrivals()
        except (OSError, ValueError):
            return False

    def close(self) -> None:
        """Give it up."""
        with suppress(OSError):
            self.socket.close()

    def get_extra_info(self, name: str, /) -> Any:
        """See `Stream`."""
        return self.socket if name == "socket" else None

    def _read(self, receive: Callable[[Given], Came], given: Given, seconds: float | None) -> Came:
        try:
            self._wait(seconds)
            return receive(given)
        except TimeoutError as exc:
            raise httpx.ReadTimeout(str(exc)) from exc
        except OSError as exc:
            raise httpx.ReadError(str(exc)) from exc

    def _wait(self, seconds: float | None) -> None:
        if seconds != self._seconds:
            self.socket.settimeout(seconds)
            self._seconds = seconds


def _arrivals(made: socket.socket) -> Callable[[], object]:
    """What tells, without a wait, whether something has come, below TLS."""
    if not hasattr(select, "poll"):  # Windows
        return lambda: select.select([made], [], [], 0)[0]
    poll = select.poll()
    poll.register(made, select.POLLIN)
    return lambda: poll.poll(0)


class Lines:
    """Lines to any number of hosts; its methods may be called from several threads.

    Args:
        context: What TLS needs; None where only plain HTTP is spoken.
        connected: See `Connected`.
    """

    def __init__(self, context: ssl.SSLContext | None, connected: Connected) -> None:
        if context is not None:
            context.set_alpn_protocols(["http/1.1"])
        self._context = context
        self._connected = connected
        self._lock = threading.Lock()
        self._idle: dict[Site, list[Line]] = {}
        self._open: WeakSet[Line] = WeakSet()
        self._closed = False

    def send(self, request: Request) -> Reply:
        """Send a request, and give its answer with the body unread.

        Raises:
            httpx.TransportError: there is no connection, or the line broke.
        """
        site, patience = request.site, request.patience
        line = self._idle_line(site) or self._connect(site, patience.connect)
        try:
            broken = _send(line, request, patience.write)
            answers = Answers(line, request.method == "HEAD", patience.read)
            try:
                answers.read_head()
            except httpx.TransportError:
                if broken is not None:
                    raise broken from None
                raise
            keep = answers.reusable and broken is None
            body = LineBody(answers, lambda whole: self._take_back(site, line, keep and whole))
        except BaseException:
            line.close()
            raise
        if _log.isEnabledFor(logging.INFO):
            # A query may hold the secret of an upload.
            where = request.where.partition("?")[0]
            _log.info('HTTP Request: %s %s "%d"', request.method, where, answers.status)
        return Reply(answers.status, answers.headers, body, request, line)

    def close(self) -> None:
        """Close all lines, also those in use."""
        with self._lock:
            self._closed = True
            lines = list(self._open)
            self._idle.clear()
        for line in lines:
            line.close()

    def _idle_line(self, site: Site) -> Line | None:
        while True:
            with self._lock:
                lines = self._idle.get(site)
                if not lines:
                    return None
                line = lines.pop()
            if line.usable():
                return line
            line.close()

    def _take_back(self, site: Site, line: Line, keep: bool) -> None:
        line.since = time.monotonic()
        with self._lock:
            if keep and not self._closed:
                lines = self._idle.setdefault(site, [])
                lines.append(line)
                if len(lines) <= IDLE:
                    return
                line = lines.pop(0)
        line.close()

    def _connect(self, site: Site, seconds: float | None) -> Line:
        started = time.monotonic()
        made: socket.socket | None = None
        try:
            made = socket.create_connection((site.host, site.port), seconds)
            taken = time.monotonic() - started
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if site.scheme == "https":
                if self._context is None:
                    raise httpx.UnsupportedProtocol("no TLS was foreseen")
                made = self._context.wrap_socket(made, server_hostname=site.host)
        except TimeoutError as exc:
            _shut(made)
            raise httpx.ConnectTimeout(str(exc)) from exc
        except (OSError, UnicodeError) as exc:
            _shut(made)
            raise httpx.ConnectError(str(exc)) from exc
        except BaseException:
            _shut(made)
            raise
        line = Line(made)
        with self._lock:
            self._open.add(line)
        self._connected(line, taken)
        return line


def _send(line: Line, request: Request, seconds: float | None) -> httpx.WriteError | None:
    """Send a request; what broke it, if something did: there may be an answer that says why."""
    due = request.length or 0
    fields = [f"{request.method} {request.target} HTTP/1.1"]
    fields += [f"{name}: {value}" for name, value in request.headers.items()]
    if request.length is not None:
        fields.append(f"Content-Length: {due}")
    text = "\r\n".join((*fields, "", ""))
    if text.count("\n") != len(fields) + 1 or text.count("\r") != len(fields) + 1 or "\0" in text or not text.isascii():
        raise httpx.LocalProtocolError("a header has a line break in it, or what is not ASCII")
    pieces: Iterator[bytes] = iter(request.body)
    try:
        head = text.encode("ascii")
        first = next(pieces, b"") if due and due <= _ONE_PIECE else b""
        line.send(head + first if first else head, seconds)
        due -= len(first)
        for piece in pieces:
            due -= len(piece)
            if due < 0:
                break
            line.send(piece, seconds)
    except httpx.WriteError as exc:
        return exc
    if due:
        raise httpx.LocalProtocolError("the body has another length than was announced")
    return None


def _shut(made: socket.socket | None) -> None:
    if made is not None:
        made.close()
