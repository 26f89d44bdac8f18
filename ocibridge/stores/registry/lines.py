# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 over lines of our own: sockets, kept while they are idle; `Answers` says what comes back (RFC 9112).

A transport of httpx, in place of its own one, which takes twice the processor time for a request and more. A mirror job
is thousands of small requests.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

import httpx

from ...settings import KiB
from .answers import Answers, Body

IDLE = 20
"""Lines that are kept for the next request."""
IDLE_SECONDS = 30.0
_ONE_PIECE = 16 * KiB
_READ = 64 * KiB

Given = TypeVar("Given")
Came = TypeVar("Came")


class Stream(Protocol):
    """A connection, as httpx hands it out (its extension "network_stream")."""

    def get_extra_info(self, name: str, /) -> Any:
        """What is asked for by name: `socket` is the socket."""


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

    __slots__ = ("__weakref__", "_seconds", "since", "socket")

    def __init__(self, made: socket.socket) -> None:
        self.socket = made
        self.since = 0.0
        self._seconds: float | None = -1.0

    def send(self, data: bytes | memoryview, seconds: float | None) -> None:
        """Send all of `data`; `seconds` is how long the other side may take none of it.

        Raises:
            httpx.WriteError: the line broke.
            httpx.WriteTimeout: it stands still.
        """
        self._wait(seconds)
        rest = memoryview(data)
        try:
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
        self._wait(0.0)
        try:
            # Below TLS, which knows no peeking.
            socket.socket.recv(self.socket, 1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def close(self) -> None:
        """Give it up."""
        with suppress(OSError):
            self.socket.close()

    def get_extra_info(self, name: str, /) -> Any:
        """See `Stream`."""
        return self.socket if name == "socket" else None

    def _read(self, receive: Callable[[Given], Came], given: Given, seconds: float | None) -> Came:
        self._wait(seconds)
        try:
            return receive(given)
        except TimeoutError as exc:
            raise httpx.ReadTimeout(str(exc)) from exc
        except OSError as exc:
            raise httpx.ReadError(str(exc)) from exc

    def _wait(self, seconds: float | None) -> None:
        if seconds != self._seconds:
            self.socket.settimeout(seconds)
            self._seconds = seconds


class Lines(httpx.BaseTransport):
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
        self._idle: dict[tuple[str, str, int | None], list[Line]] = {}
        self._open: WeakSet[Line] = WeakSet()
        self._closed = False

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request, and give its answer with the body unread.

        Raises:
            httpx.TransportError: there is no connection, or the line broke.
        """
        url = request.url
        key = (url.scheme, url.host, url.port)
        timeout: dict[str, float | None] = request.extensions.get("timeout", {})
        line = self._idle_line(key) or self._connect(url, timeout.get("connect"))
        try:
            broken = _send(line, request, timeout.get("write"))
            answers = Answers(line, request.method == "HEAD", timeout.get("read"))
            try:
                answers.read_head()
            except httpx.TransportError:
                if broken is not None:
                    raise broken from None
                raise
            keep = answers.reusable and broken is None
            body = Body(answers, lambda whole: self._take_back(key, line, keep and whole))
        except BaseException:
            line.close()
            raise
        return httpx.Response(answers.status, headers=answers.headers, stream=body, extensions={"network_stream": line})

    def close(self) -> None:
        """Close all lines, also those in use."""
        with self._lock:
            self._closed = True
            lines = list(self._open)
            self._idle.clear()
        for line in lines:
            line.close()

    def _idle_line(self, key: tuple[str, str, int | None]) -> Line | None:
        while True:
            with self._lock:
                lines = self._idle.get(key)
                if not lines:
                    return None
                line = lines.pop()
            if line.usable():
                return line
            line.close()

    def _take_back(self, key: tuple[str, str, int | None], line: Line, keep: bool) -> None:
        line.since = time.monotonic()
        with self._lock:
            if keep and not self._closed:
                lines = self._idle.setdefault(key, [])
                lines.append(line)
                if len(lines) <= IDLE:
                    return
                line = lines.pop(0)
        line.close()

    def _connect(self, url: httpx.URL, seconds: float | None) -> Line:
        started = time.monotonic()
        host = url.raw_host.decode("ascii")
        made: socket.socket | None = None
        try:
            made = socket.create_connection((host, url.port or (443 if url.scheme == "https" else 80)), seconds)
            taken = time.monotonic() - started
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if url.scheme == "https":
                if self._context is None:
                    raise httpx.UnsupportedProtocol("no TLS was foreseen")
                made = self._context.wrap_socket(made, server_hostname=host)
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


def _send(line: Line, request: httpx.Request, seconds: float | None) -> httpx.WriteError | None:
    """Send a request; what broke it, if something did: there may be an answer that says why."""
    target: bytes = request.extensions.get("target") or request.url.raw_path
    lines = [b"%b %b HTTP/1.1" % (request.method.encode("ascii"), target)]
    lines += [b"%b: %b" % header for header in request.headers.raw]
    head = b"\r\n".join((*lines, b"", b""))
    if head.count(b"\n") != len(lines) + 1 or head.count(b"\r") != len(lines) + 1 or b"\0" in head:
        raise httpx.LocalProtocolError("a header has a line break in it")
    if not isinstance(request.stream, httpx.SyncByteStream):
        raise httpx.LocalProtocolError("the body is for another kind of client")
    due = int(request.headers.get("content-length", 0))
    pieces: Iterator[bytes] = iter(request.stream)
    try:
        first = next(pieces, b"") if due and due <= _ONE_PIECE else b""
        line.send(head + first, seconds)
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
