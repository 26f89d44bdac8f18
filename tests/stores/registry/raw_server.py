# SPDX-License-Identifier: Apache-2.0
"""A server that answers each request with bytes of a script, whether they are HTTP or not."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType

from ...registry import TLS

Script = Sequence[bytes | None]
"""What is answered to the requests of one connection, one after the other; None closes it unanswered.

The connection is closed at the end of its script, unless the last answer ends with `stay`.
"""


class RawServer:
    """Reads requests, and answers each with the next bytes of its connection's script.

    Attributes:
        requests: Head and body of each request, in their order.
        connections: How many there were.
        waiting: Set once an answer that ends with `stay` is out.
    """

    def __init__(self, *scripts: Script, tls: bool = False) -> None:
        self._scripts = scripts
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.url = f"{'https' if tls else 'http'}://{self.host}"
        self._context: ssl.SSLContext | None = None
        if tls:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(TLS / "server.pem", TLS / "server.key")
        self.requests: list[tuple[bytes, bytes]] = []
        self.connections = 0
        self.waiting = threading.Event()
        self._made: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]

    def _accept(self) -> None:
        for script in self._scripts:
            try:
                made, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(made, script))
            thread.start()
            self._threads.append(thread)

    def _serve(self, made: socket.socket, script: Script) -> None:
        with suppress(OSError), made:
            if self._context is not None:
                made = self._context.wrap_socket(made, server_side=True)
            self._made.append(made)
            with made, made.makefile("rb") as file:
                for said in script:
                    head = b""
                    while not head.endswith(b"\r\n\r\n"):
                        line = file.readline()
                        if not line:
                            return
                        head += line
                    lengths = [each.partition(b":")[2] for each in head.lower().split(b"\r\n") if b"-length:" in each]
                    self.requests.append((head, file.read(int(lengths[0]) if lengths else 0)))
                    if said is None:
                        return
                    made.sendall(said)
                if script and script[-1] and script[-1].endswith(b"stay"):
                    self.waiting.set()
                    file.read(1)

    def __enter__(self) -> RawServer:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for made in self._made:
            with suppress(OSError):
                socket.socket.shutdown(made, socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
