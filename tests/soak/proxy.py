# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy in front of a registry whose connections have faults.

Plain HTTP protects no head: a bit that changes in a request may ask for something else, such as another tag, and that
is then done, rightly. Therefore heads of requests pass as they are. Whatever else changes has to be noticed: what
requests and responses hold, the framing of chunks, and the heads of responses.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections import Counter, deque
from types import TracebackType

from .faults import ALTERING, DRIP, END, RESET, STALL, Fault, Faulty, Plan
from .framing import Frames

_PIECE = 64 * 1024
_AT_ONCE = struct.pack("ii", 1, 0)
_TICK = 0.02
_CLOSING = 0.3
"""Seconds in which a side may close its end, too, before that is reset."""


class _Over(Exception):
    """A fault that ends the connection."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class FaultyProxy:
    """Passes connections on to `target`.

    Args:
        target: `HOST:PORT`.
        plan: The faults of each connection.

    Attributes:
        host: `HOST:PORT` of the proxy.
        happened: How often each kind of fault did happen, by kind, direction (`up` is to the server) and, where bytes
            were altered, the part of the message.
        connections: How many there were.
    """

    def __init__(self, target: str, plan: Plan) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._plan = plan
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._listener.setblocking(False)
        self.host = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.happened: Counter[tuple[str, str, str]] = Counter()
        self.connections = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="soak-proxy", daemon=True)

    def heal(self) -> None:
        """Let connections that come from now on have no faults."""
        self._plan = lambda number: ()

    def altered(self, way: str) -> bool:
        """Whether bytes in the direction `up` or `down` were altered."""
        return any(kind in ALTERING and direction == way for kind, direction, _ in self.happened)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._main = self._loop.create_task(self._accept())
        self._started.set()
        try:
            self._loop.run_until_complete(self._main)
        except asyncio.CancelledError:
            pass
        finally:
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self._loop.close()

    async def _accept(self) -> None:
        tasks = set()
        while True:
            client, _ = await self._loop.sock_accept(self._listener)
            task = self._loop.create_task(self._connection(client, self.connections))
            self.connections += 1
            # The loop itself keeps only weak references.
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    async def _connection(self, client: socket.socket, number: int) -> None:
        faults = {fault.up: fault for fault in self._plan(number)}
        waiting: deque[bytes] = deque()
        whole = any(fault.parts for fault in faults.values())
        with client, socket.socket() as server:
            for each in (client, server):
                each.setblocking(False)
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                await self._loop.sock_connect(server, self._target)
            except OSError:
                return
            pumps = [
                self._loop.create_task(
                    self._pump(*ends, Faulty(faults.get(up), Frames(waiting, responses=not up) if whole else None))
                )
                for up, ends in ((True, (client, server)), (False, (server, client)))
            ]
            try:
                done, _ = await asyncio.wait(pumps, return_when=asyncio.FIRST_EXCEPTION)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
            why = next((exc for exc in (each.exception() for each in done) if exc), None)
            if isinstance(why, _Over) and why.kind == RESET:
                for each in (client, server):
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
            elif isinstance(why, _Over):
                await asyncio.gather(self._finish(client), self._finish(server))
            elif why and not isinstance(why, OSError):
                raise why

    async def _pump(self, source: socket.socket, sink: socket.socket, way: Faulty) -> None:
        slow = Fault(DRIP, True, 0)
        until = 0.0
        while data := await self._loop.sock_recv(source, _PIECE):
            for step in way.feed(data):
                if isinstance(step, bytes):
                    while step and self._loop.time() < until:
                        await self._loop.sock_sendall(sink, step[: len(slow.data)])
                        step = step[len(slow.data) :]
                        await asyncio.sleep(_TICK)
                    await self._loop.sock_sendall(sink, step)
                    continue
                part = way.hit if step.kind in ALTERING else ""
                self.happened[step.kind, "up" if step.up else "down", part] += 1
                if step.kind in (RESET, END):
                    raise _Over(step.kind)
                if step.kind == STALL:
                    await asyncio.sleep(step.seconds)
                elif step.kind == DRIP:
                    slow, until = step, self._loop.time() + step.seconds
        sink.shutdown(socket.SHUT_WR)

    async def _finish(self, end: socket.socket) -> None:
        """Send a FIN; a close while there are bytes that nobody has read would send a RST."""

        async def drain() -> None:
            while await self._loop.sock_recv(end, _PIECE):
                pass

        try:
            end.shutdown(socket.SHUT_WR)
            await asyncio.wait_for(drain(), _CLOSING)
        except (OSError, asyncio.TimeoutError):
            pass

    def __enter__(self) -> FaultyProxy:
        self._started = threading.Event()
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._main.cancel)
        self._thread.join()
        self._listener.close()
