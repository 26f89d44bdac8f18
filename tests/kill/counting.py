# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy that counts what passes, and can hold a line in the middle of it."""

from __future__ import annotations

import socket
import threading
from types import TracebackType

_PIECE = 256 * 1024


class Line:
    """Passes connections on to `target`, and counts.

    Args:
        target: `HOST:PORT`.

    Attributes:
        host: `HOST:PORT` of the proxy.
        sent: Bytes on their way to the server.
        received: Bytes on their way back.
        reached: Set once `received` is `hold_at` or more.
        go: As long as it is not set, nothing passes after `hold_at` bytes.
    """

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.sent = self.received = 0
        self.hold_at: int | None = None
        self.reached = threading.Event()
        self.go = threading.Event()
        self.go.set()
        self._lock = threading.Lock()
        self._ends: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []

    def hold(self, at: int, *, up: bool = False) -> None:
        """Let `at` more bytes pass, one way, and then nothing until `go` is set."""
        self.hold_at = (self.sent if up else self.received) + at
        self._up = up
        self.reached.clear()
        self.go.clear()

    def _run(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._target)
            with self._lock:
                self._ends |= {client, server}
            left = [2]
            for args in ((client, server, True), (server, client, False)):
                self._start(self._pump, *args, left)

    def _start(self, work: object, *args: object) -> None:
        thread = threading.Thread(target=work, args=args)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _pump(self, source: socket.socket, sink: socket.socket, up: bool, left: list[int]) -> None:
        buffer = memoryview(bytearray(_PIECE))
        try:
            while count := source.recv_into(buffer):
                self._wait(up)
                sink.sendall(buffer[:count])
                with self._lock:
                    if up:
                        self.sent += count
                    else:
                        self.received += count
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            _hang_up(source)
            _hang_up(sink)
        with self._lock:
            left[0] -= 1
            if not left[0]:
                self._ends -= {source, sink}
                source.close()
                sink.close()

    def _wait(self, up: bool) -> None:
        if self.hold_at is not None and up is self._up and (self.sent if up else self.received) >= self.hold_at:
            self.reached.set()
            self.go.wait()

    def __enter__(self) -> Line:
        self._start(self._run)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.go.set()
        _hang_up(self._listener)
        self._listener.close()
        with self._lock:
            for end in self._ends:
                _hang_up(end)
        for thread in self._threads:
            thread.join()


def _hang_up(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
