# SPDX-License-Identifier: Apache-2.0
"""Whole HTTP requests on a real socket, and what can go wrong with each of them."""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.client import responses
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import TypeVar

from ..stores.registry.fault_server import FaultServer, Reply, Seen
from .names import asked_as

Running = TypeVar("Running", bound="Server")

Act = Callable[[Seen, Callable[[], Reply]], Reply]
"""What a fault does: it is given the request and the true answer, which it may ask for or not."""


@dataclass(frozen=True)
class Pieces(Reply):
    """An answer whose body comes in pieces, with no length unless a header says one."""

    pieces: Callable[[], Iterator[bytes]] = field(default=lambda: iter(()))
    length: bool = False


@dataclass(frozen=True)
class Raw(Reply):
    """Bytes in place of an answer; the line is dropped behind them."""


@dataclass(frozen=True)
class Reset(Pieces):
    """An answer after whose pieces the connection is reset, as soon as they had the time to arrive."""


@dataclass
class Fault:
    """Something that goes wrong with some requests.

    Attributes:
        method: Regular expression for the method of the requests.
        path: Regular expression that is searched for in the path.
        act: What happens; None lets everything but the body's way go right.
        times: How often, counted in requests.
        after: Requests that go well before.
        take: Read so many bytes of the request's body, then drop the line.
        refuse: Answer so before the request's body is read, then drop the line.
        when: What else must hold.
    """

    method: str
    path: str
    act: Act | None = None
    times: int = 1
    after: int = 0
    take: int | None = None
    refuse: Reply | None = None
    when: Callable[[Seen], bool] = lambda seen: True
    done: int = 0

    def strikes(self, seen: Seen) -> bool:
        """Whether it is this request's turn, which then counts."""
        if not re.fullmatch(self.method, seen.method) or not re.search(self.path, seen.path) or not self.when(seen):
            return False
        if self.after:
            self.after -= 1
            return False
        if self.done >= self.times:
            return False
        self.done += 1
        return True


class Server(FaultServer):
    """A server with an answer of its own for every request; a subclass says which."""

    def __init__(self, name: str = "127.0.0.1") -> None:
        super().__init__(asked_as(name))
        # No FIN before a reset.
        self._server.shutdown_request = self._server.close_request  # type: ignore[method-assign]
        self.faults: list[Fault] = []
        self.stopping = threading.Event()
        self._turn = threading.Lock()

    def fault(self, method: str, path: str, act: Act | None = None, **more: object) -> Fault:
        """Add a fault."""
        made = Fault(method, path, act, **more)  # type: ignore[arg-type]
        self.faults.append(made)
        return made

    # What a subclass decides.

    def refuse(self, seen: Seen) -> Reply | None:
        """An answer that is given before the body is read."""
        return None

    def interrupted(self, seen: Seen) -> None:
        """The line broke in the middle of the body; `seen` has what came."""

    def reply(self, seen: Seen) -> Reply:
        """The answer."""
        raise NotImplementedError

    # How it moves.

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        headers = {key.lower(): value for key, value in handler.headers.items()}
        seen = Seen(handler.command, handler.path, headers, b"")
        with self._turn:
            fault = next((each for each in self.faults if each.strikes(seen)), Fault("", ""))
            refusal = fault.refuse or self.refuse(seen)
        if refusal:
            self._note(seen)
            if int(headers.get("content-length", "0")) or "transfer-encoding" in headers:
                self._refuse(handler, refusal)
            else:
                self._answer(handler, refusal)
            return
        body = _body(handler, headers, fault.take)
        seen = replace(seen, body=body)
        self._note(seen)
        expected = int(headers.get("content-length", "0"))
        if fault.take is not None or len(body) < expected:
            with self._turn:
                self.interrupted(seen)
            handler.close_connection = True
            return
        self._answer(handler, fault.act(seen, lambda: self._true(seen)) if fault.act else self._true(seen))

    def _note(self, seen: Seen) -> None:
        with self._turn:
            self.seen.append(seen)

    def _true(self, seen: Seen) -> Reply:
        with self._turn:
            return self.reply(seen)

    def _refuse(self, handler: BaseHTTPRequestHandler, reply: Reply) -> None:
        self._answer(handler, reply)
        handler.close_connection = True
        # Read what is still coming, or the reset would overtake the answer.
        handler.wfile.flush()
        handler.connection.shutdown(socket.SHUT_WR)
        while handler.connection.recv(1 << 16):
            pass

    def _answer(self, handler: BaseHTTPRequestHandler, reply: Reply) -> None:
        if not reply.status:
            handler.close_connection = True
            return
        if isinstance(reply, Raw):
            handler.close_connection = True
            handler.wfile.write(reply.body)
            return
        lines = [f"HTTP/1.1 {reply.status} {responses.get(reply.status, 'Status')}"]
        lines += [f"{key}: {value}" for key, value in reply.headers.items()]
        if reply.length and "Content-Length" not in reply.headers and reply.status != 204:
            lines.append(f"Content-Length: {len(reply.body)}")
        bodiless = handler.command == "HEAD"
        if reply.cut is not None or not (reply.length or bodiless):
            handler.close_connection = True
        handler.wfile.write("\r\n".join([*lines, "", ""]).encode())
        if bodiless:
            return
        for piece in reply.pieces() if isinstance(reply, Pieces) else [reply.body[: reply.cut]]:
            if self.stopping.is_set():
                handler.close_connection = True
                return
            handler.wfile.write(piece)
        if isinstance(reply, Reset):
            self.stopping.wait(0.05)
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def __enter__(self: Running) -> Running:
        super().__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stopping.set()
        super().__exit__(kind, exc, trace)


def _body(handler: BaseHTTPRequestHandler, headers: dict[str, str], most: int | None) -> bytes:
    if "chunked" in headers.get("transfer-encoding", ""):
        return b"".join(_chunks(handler))[:most]
    length = int(headers.get("content-length", "0"))
    return handler.rfile.read(length if most is None else min(most, length))


def _chunks(handler: BaseHTTPRequestHandler) -> Iterator[bytes]:
    while size := int(handler.rfile.readline().partition(b";")[0] or b"0", 16):
        yield handler.rfile.read(size)
        handler.rfile.readline()
    while handler.rfile.readline().strip():
        pass
