# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks.mirror_latency MILLISECONDS HOST:PORT...`: makes servers as far away as their round trip says.

For each server a port of loopback is opened, and printed. Whatever comes in is passed on half a round trip later, in
both directions; any amount may be under way, so that the throughput stays what it was.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast


class Side(asyncio.Protocol):
    """One side of a connection: what it sends is delivered to the other one, `delay` seconds later, its end, too.

    A protocol and timers, as streams and tasks would take several times the processor time, which the registries and
    the workers need.

    Args:
        delay: Seconds of a way, half a round trip.
        made: Called once it is connected.
    """

    def __init__(self, delay: float, made: Callable[[Side], None] = lambda _: None) -> None:
        self._delay = delay
        self._made = made
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        # In the order in which it came, which timers that are due at one moment do not keep.
        self._coming: deque[bytes] = deque()
        self._due = 0
        self.other: Side | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is there, and takes what is due already."""
        self._transport = cast(asyncio.Transport, transport)
        self._made(self)
        self._deliver(0)

    def data_received(self, data: bytes) -> None:
        """It has sent something."""
        self._send(data)

    def eof_received(self) -> bool:
        """It sends no more, and may still receive."""
        self._send(b"")
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone, and so is the other one, once it has got everything."""
        if self.other is not None:
            self._loop.call_later(2 * self._delay, self.other.end)

    def end(self) -> None:
        """Close it."""
        if self._transport is not None:
            self._transport.close()

    def _send(self, data: bytes) -> None:
        other = self.other
        assert other is not None
        other._coming.append(data)
        self._loop.call_later(self._delay, other._deliver, 1)

    def _deliver(self, more: int) -> None:
        self._due += more
        while self._transport is not None and self._due:
            self._due -= 1
            data = self._coming.popleft()
            if self._transport.is_closing():
                continue
            if data:
                self._transport.write(data)
            else:
                self._transport.write_eof()


async def serve(delay: float, upstreams: Sequence[str]) -> None:
    """Serve until the process is ended.

    Args:
        delay: Seconds of a way, half a round trip.
        upstreams: `HOST:PORT` of each server.
    """
    loop = asyncio.get_running_loop()
    connecting: set[asyncio.Task[None]] = set()

    def reach(upstream: str, near: Side) -> None:
        host, _, port = upstream.rpartition(":")
        far = Side(delay)
        near.other, far.other = far, near

        async def connect() -> None:
            try:
                await loop.create_connection(lambda: far, host, int(port))
            except OSError:
                near.end()

        task = loop.create_task(connect())
        connecting.add(task)
        task.add_done_callback(connecting.discard)

    def accept(upstream: str) -> Side:
        return Side(delay, lambda near: reach(upstream, near))

    servers = [await loop.create_server(partial(accept, each), "127.0.0.1", 0) for each in upstreams]
    print(*(server.sockets[0].getsockname()[1] for server in servers), flush=True)
    await asyncio.gather(*(server.serve_forever() for server in servers))


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1]) / 2000, sys.argv[2:]))
