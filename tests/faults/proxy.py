# SPDX-License-Identifier: Apache-2.0
"""A bad line: a TCP proxy that cuts, delays, throttles and corrupts what passes."""

from __future__ import annotations

import socket
import struct
import threading
from collections import deque
from dataclasses import dataclass
from types import TracebackType

from .names import asked_as

_PIECE = 64 * 1024
_NOW = struct.pack("ii", 1, 0)


@dataclass(frozen=True)
class Way:
    """One direction of a connection.

    Attributes:
        cut: Bytes after which the connection ends, in both directions.
        corrupt: The byte that is changed, counted from the connection's first.
        delay: Seconds before the first byte passes.
        rate: Bytes per second; None is as fast as it goes.
    """

    cut: int | None = None
    corrupt: int | None = None
    delay: float = 0.0
    rate: int | None = None


@dataclass(frozen=True)
class Line:
    """A connection: what happens on the way to the server and back.

    Attributes:
        up: From the client to the server.
        down: From the server to the client.
        reset: Whether it is reset as soon as it stands.
        outage: Seconds for which new connections are refused once this one is cut.
    """

    up: Way = Way()
    down: Way = Way()
    reset: bool = False
    outage: float = 0.0


class Proxy:
    """Passes connections on to `target`.

    Args:
        target: `HOST:PORT`, on this machine.
        lines: The first connections; those after them are like `usual`.
        usual: See `lines`.
        listening: Whether connections are accepted at all.
    """

    def __init__(self, target: str, *lines: Line, usual: Line = Line(), listening: bool = True) -> None:
        self._target = ("127.0.0.1", int(target.rpartition(":")[2]))
        self._lines = deque(lines)
        self._usual = usual
        self._listening = listening
        self._address = ("127.0.0.1", 0)
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._ends: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listener = self._bind()
        self._address = self._listener.getsockname()
        self.host = f"{asked_as('127.0.0.1')}:{self._address[1]}"
        self.connections = 0

    def _bind(self) -> socket.socket:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(self._address)
        return listener

    def _run(self) -> None:
        while not self._stopping.is_set():
            outage = self._accept()
            if outage is None or self._stopping.wait(outage):
                return
            with self._lock:
                if self._stopping.is_set():
                    return
                self._listener = self._bind()
                self._listener.listen(64)

    def _accept(self) -> float | None:
        """Accept until there is an outage, whose seconds are returned, or the end."""
        listener = self._listener
        self._outage = 0.0
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return None if self._stopping.is_set() else self._outage
            line = self._lines.popleft() if self._lines else self._usual
            self.connections += 1
            if line.reset:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NOW)
                client.close()
                continue
            try:
                server = socket.create_connection(self._target)
            except OSError:
                client.close()
                continue
            self._join(client, server, line)

    def _join(self, client: socket.socket, server: socket.socket, line: Line) -> None:
        with self._lock:
            self._ends |= {client, server}
        ends = threading.Semaphore(0)
        for args in ((client, server, line.up), (server, client, line.down)):
            self._start(self._pump, *args, line, ends)
        self._start(self._close, client, server, ends)

    def _start(self, work: object, *args: object) -> None:
        thread = threading.Thread(target=work, args=args)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _pump(
        self, source: socket.socket, sink: socket.socket, way: Way, line: Line, ends: threading.Semaphore
    ) -> None:
        count = 0
        piece = _PIECE if way.rate is None else max(1, min(_PIECE, way.rate // 20))
        try:
            if way.cut == 0:
                self._cut(source, sink, line)
            while data := source.recv(piece):
                if not count and way.delay:
                    self._stopping.wait(way.delay)
                if way.rate is not None:
                    self._stopping.wait(len(data) / way.rate)
                if way.corrupt is not None and count <= way.corrupt < count + len(data):
                    at = way.corrupt - count
                    data = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
                if way.cut is not None and count + len(data) >= way.cut:
                    sink.sendall(data[: way.cut - count])
                    self._cut(source, sink, line)
                    return
                sink.sendall(data)
                count += len(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            _hang_up(source)
            _hang_up(sink)
        finally:
            ends.release()

    def _cut(self, source: socket.socket, sink: socket.socket, line: Line) -> None:
        if line.outage:
            self._outage = line.outage
            self._end_listening()
        _hang_up(source)
        _hang_up(sink)

    def _close(self, client: socket.socket, server: socket.socket, ends: threading.Semaphore) -> None:
        ends.acquire()
        ends.acquire()
        with self._lock:
            self._ends -= {client, server}
        client.close()
        server.close()

    def _end_listening(self) -> None:
        with self._lock:
            _hang_up(self._listener)
            self._listener.close()

    def __enter__(self) -> Proxy:
        if self._listening:
            self._listener.listen(64)
            self._start(self._run)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._end_listening()
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
