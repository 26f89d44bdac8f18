# SPDX-License-Identifier: Apache-2.0
"""A server on a real socket that answers exactly what a test tells it to, however wrong."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import responses
from http.server import BaseHTTPRequestHandler
from types import TracebackType

from ...quiet import QuietServer


@dataclass(frozen=True)
class Seen:
    """A request that arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def authorization(self) -> str | None:
        return self.headers.get("authorization")


@dataclass(frozen=True)
class Reply:
    """An answer.

    Attributes:
        status: HTTP status; 0 drops the line without a word.
        body: Body.
        headers: Headers; Content-Length is added unless `length` is False.
        cut: Drop the line after this many bytes of the body.
        early: Answer before the request's body is read, then drop the line.
        length: Whether Content-Length is sent.
    """

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    early: bool = False
    length: bool = True


Script = Reply | Callable[[Seen], Reply]


class FaultServer:
    """Replies by method and path (without its query), one after the other; the last one stays.

    Example:
        with FaultServer() as server:
            server.on("GET", "/v2/r/blobs/x", Reply(503), Reply(200, b"data"))
    """

    def __init__(self, name: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> None:
        self.seen: list[Seen] = []
        self._scripts: dict[tuple[str, str], list[Script]] = {}
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                with owner._lock:
                    owner._connections.add(self.connection)

            def finish(self) -> None:
                with owner._lock:
                    owner._connections.discard(self.connection)
                try:
                    super().finish()
                except OSError:
                    pass

            def handle(self) -> None:
                try:
                    super().handle()
                except OSError:
                    pass

            def log_message(self, format: str, *args: object) -> None:
                pass

            def _serve(self) -> None:
                owner._serve(self)

            do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

        self._server = QuietServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = False
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.host = f"{name}:{self._server.server_address[1]}"
        self.url = f"{'https' if tls else 'http'}://{self.host}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    def on(self, method: str, path: str, *scripts: Script) -> None:
        """Say what to reply."""
        self._scripts[method, path] = list(scripts)

    def requests(self, method: str, path: str = "") -> list[Seen]:
        """What arrived, by method and start of the path."""
        return [seen for seen in self.seen if seen.method == method and seen.path.startswith(path)]

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        path = handler.path.partition("?")[0]
        with self._lock:
            scripts = self._scripts.get((handler.command, path), [Reply(404)])
            script = scripts.pop(0) if len(scripts) > 1 else scripts[0]
        headers = {key.lower(): value for key, value in handler.headers.items()}
        early = isinstance(script, Reply) and script.early
        body = b"" if early else handler.rfile.read(int(headers.get("content-length", "0")))
        seen = Seen(handler.command, handler.path, headers, body)
        self.seen.append(seen)
        reply = script if isinstance(script, Reply) else script(seen)
        if not reply.status:
            handler.close_connection = True
            return
        lines = [f"HTTP/1.1 {reply.status} {responses.get(reply.status, 'Status')}"]
        lines += [f"{key}: {value}" for key, value in reply.headers.items()]
        if reply.length and "Content-Length" not in reply.headers and reply.status != 204:
            lines.append(f"Content-Length: {len(reply.body)}")
        handler.wfile.write("\r\n".join([*lines, "", ""]).encode())
        if handler.command != "HEAD":
            handler.wfile.write(reply.body if reply.cut is None else reply.body[: reply.cut])
        if reply.cut is not None or reply.early or not reply.length:
            handler.close_connection = True
        if early:
            # Read what is still coming, or the reset would overtake the answer.
            handler.wfile.flush()
            handler.connection.shutdown(socket.SHUT_WR)
            while handler.connection.recv(1 << 16):
                pass

    def __enter__(self) -> FaultServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        with self._lock:
            for connection in self._connections:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
        self._server.server_close()
        self._thread.join()
