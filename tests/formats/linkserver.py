# SPDX-License-Identifier: Apache-2.0
"""A web server on the loopback that answers what a test tells it to."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from ..quiet import QuietServer


@dataclass
class Answer:
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    status: int = 200


@dataclass
class LinkServer:
    """Answers by path; `seen` are the requests: path and headers."""

    port: int
    answers: dict[str, Answer] = field(default_factory=dict)
    seen: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"


@contextmanager
def link_server() -> Iterator[LinkServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.seen.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
            answer = state.answers.get(self.path.partition("?")[0], Answer(status=404))
            self.send_response(answer.status)
            for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = QuietServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False
    state = LinkServer(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
