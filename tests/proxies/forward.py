# SPDX-License-Identifier: Apache-2.0
"""An HTTP proxy (RFC 9110, section 7.7; RFC 9112, section 3.2.2) that passes on everything as it comes, breaks too."""

from __future__ import annotations

import base64
import socket
import struct
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from ..quiet import QuietServer
from .names import resolve

_PIECE = 64 * 1024
_NOW = struct.pack("ii", 1, 0)
_OWN = ("proxy-authorization", "proxy-connection")  # for the proxy alone


@dataclass(frozen=True)
class Passed:
    """A request that reached the proxy.

    Attributes:
        method: Its method; `CONNECT` for a tunnel.
        target: `HOST:PORT` that it is for.
        path: Path and query; empty for a tunnel.
        headers: All header fields, with names in lower case.
    """

    method: str
    target: str
    path: str
    headers: Mapping[str, str]


class HttpProxy:
    """Forwards requests for `http://`, and opens tunnels.

    Args:
        credentials: User and password that it asks for.
        answer: The whole response with which it refuses every request.
        buffer: Bytes that each of its sockets buffers, in each direction; few, or slow servers look fast.

    Attributes:
        host: `127.0.0.1:PORT`.
        url: Its address, without credentials.
        seen: The requests that reached it, refused ones too.
    """

    def __init__(
        self, *, credentials: tuple[str, str] | None = None, answer: bytes | None = None, buffer: int = _PIECE
    ) -> None:
        self.seen: list[Passed] = []
        self.answer = answer
        self.buffer = buffer
        self.expected: str | None = None
        if credentials:
            self.expected = "Basic " + base64.b64encode(":".join(credentials).encode()).decode()
        self._ends: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._stopped = False
        owner = self

        class Handler(_Handler):
            proxy = owner

        self._server = _Server(("127.0.0.1", 0), Handler)
        # Whoever is accepted has the buffers of the listening socket.
        _limit(self._server.socket, buffer)
        self.host = f"127.0.0.1:{self._server.server_address[1]}"
        self.url = f"http://{self.host}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def targets(self) -> set[str]:
        """The hosts that were asked for, without ports."""
        return {passed.target.rpartition(":")[0] for passed in self.seen}

    def connect(self, host: str, port: int) -> socket.socket:
        """A connection to a server."""
        upstream = socket.socket()
        try:
            _limit(upstream, self.buffer)
            upstream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            upstream.connect((resolve(host), port))
            self.add(upstream)
        except OSError:
            upstream.close()
            raise
        return upstream

    def add(self, end: socket.socket) -> None:
        """Note a connection that has to end when the proxy does."""
        with self._lock:
            if self._stopped:
                raise ConnectionAbortedError
            self._ends.add(end)

    def discard(self, end: socket.socket) -> None:
        with self._lock:
            self._ends.discard(end)

    def __enter__(self) -> HttpProxy:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        with self._lock:
            self._stopped = True
            for end in self._ends:
                _hang_up(end)
        self._server.server_close()
        self._thread.join()


class _Server(QuietServer):
    daemon_threads = False
    request_queue_size = 64

    def shutdown_request(self, request: Any) -> None:
        """Close, and send no FIN before a reset."""
        self.close_request(request)


class _Handler(BaseHTTPRequestHandler):
    """One connection of a client, and the one to the server that it asks for."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    proxy: HttpProxy

    def setup(self) -> None:
        super().setup()
        self._target = ""
        self._upstream: socket.socket | None = None
        self._down: threading.Thread | None = None

    def handle(self) -> None:
        try:
            self.proxy.add(self.connection)
            super().handle()
        except OSError:
            pass  # whichever side it was, the pump down is the one that tells the client
        finally:
            self._leave()
            self.proxy.discard(self.connection)

    def finish(self) -> None:
        try:
            super().finish()
        except OSError:
            pass

    def log_message(self, format: str, *args: object) -> None:
        pass

    def handle_expect_100(self) -> bool:
        """The server answers that."""
        return True

    def _serve(self) -> None:
        # The server says when the connection ends, or the client by ending it.
        self.close_connection = False
        tunnel = self.command == "CONNECT"
        address = urlsplit(f"//{self.path}" if tunnel else self.path)
        target = f"{address.hostname}:{address.port or 80}"
        path = "" if tunnel else (address.path or "/") + (f"?{address.query}" if address.query else "")
        fields = {name.lower(): value for name, value in self.headers.items()}
        self.proxy.seen.append(Passed(self.command, target, path, fields))
        refusal = self._refusal(fields)
        if not refusal and target != self._target:
            refusal = self._join(target, address.hostname or "", address.port or 80)
        if refusal or self._upstream is None:
            self._refuse(refusal)
        elif tunnel:
            self._tunnel(self._upstream)
        else:
            self._forward(self._upstream, path, fields)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_CONNECT = _serve

    def _refusal(self, fields: dict[str, str]) -> bytes:
        if self.proxy.answer:
            return self.proxy.answer
        if self.proxy.expected not in (None, fields.get("proxy-authorization")):
            return _page("407 Proxy Authentication Required", 'Proxy-Authenticate: Basic realm="proxy"')
        return b""

    def _join(self, target: str, host: str, port: int) -> bytes:
        """Connect to another server than before."""
        self._leave()
        try:
            self._upstream = self.proxy.connect(host, port)
        except OSError:
            return _page("502 Bad Gateway")
        self._target = target
        if self.command == "CONNECT":
            self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        self._down = threading.Thread(target=self._pump_down, args=(self._upstream,))
        self._down.start()
        return b""

    def _refuse(self, page: bytes) -> None:
        self.close_connection = True
        self.wfile.write(page)
        # Read what is still coming, or a reset would overtake the answer.
        self.connection.shutdown(socket.SHUT_WR)
        while self.rfile.read1(_PIECE):
            pass

    def _tunnel(self, upstream: socket.socket) -> None:
        self.close_connection = True
        while data := self.rfile.read1(_PIECE):
            self._send(upstream, data)

    def _send(self, upstream: socket.socket, data: bytes) -> None:
        try:
            upstream.sendall(data)
        except OSError:
            # What the server said before it hung up has to reach the client first.
            if self._down:
                self._down.join()
            raise

    def _forward(self, upstream: socket.socket, path: str, fields: dict[str, str]) -> None:
        lines = [f"{self.command} {path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in self.headers.items() if name.lower() not in _OWN]
        self._send(upstream, "\r\n".join([*lines, "", ""]).encode("latin-1"))
        if "chunked" in fields.get("transfer-encoding", ""):
            self._chunks(upstream)
        else:
            self._bytes(upstream, int(fields.get("content-length", "0")))

    def _bytes(self, upstream: socket.socket, count: int) -> None:
        while count:
            data = self.rfile.read1(min(count, _PIECE))
            if not data:
                raise ConnectionResetError
            self._send(upstream, data)
            count -= len(data)

    def _chunks(self, upstream: socket.socket) -> None:
        size = -1
        while size:
            line = self.rfile.readline()
            size = int(line.partition(b";")[0], 16)
            self._send(upstream, line)
            self._bytes(upstream, size)
            if size:
                self._bytes(upstream, 2)
        while line := self.rfile.readline():
            self._send(upstream, line)
            if not line.strip():
                return

    def _pump_down(self, upstream: socket.socket) -> None:
        """Whatever the server sends, and how it ends."""
        try:
            while data := upstream.recv(_PIECE):
                self.connection.sendall(data)
            if upstream is self._upstream:
                self.connection.shutdown(socket.SHUT_WR)
        except OSError:
            # Wakes the thread that reads from the client, which closes; that is a reset then.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NOW)
            _hang_up(self.connection, socket.SHUT_RD)

    def _leave(self) -> None:
        """End the connection to the server."""
        upstream, self._upstream, self._target = self._upstream, None, ""
        if upstream is None or self._down is None:
            return
        _hang_up(upstream)
        self._down.join()
        self.proxy.discard(upstream)
        upstream.close()


def _page(status: str, *headers: str) -> bytes:
    body = f"<html><body><h1>{status}</h1></body></html>\n"
    lines = [f"HTTP/1.1 {status}", "Content-Type: text/html", f"Content-Length: {len(body)}", "Connection: close"]
    return "\r\n".join([*lines, *headers, "", body]).encode()


def _limit(end: socket.socket, buffer: int) -> None:
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)


def _hang_up(end: socket.socket, how: int = socket.SHUT_RDWR) -> None:
    try:
        end.shutdown(how)
    except OSError:
        pass
