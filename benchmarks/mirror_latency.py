# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks.mirror_latency MILLISECONDS HOST:PORT...`: makes servers as far away as their round trip says.

For each server a port of loopback is opened, and printed. Whatever comes in is passed on half a round trip later, in
both directions; any amount may be under way, so that the throughput stays what it was.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from ocibridge.settings import KiB

PIECE = 256 * KiB
UNDER_WAY = 1024
"""Pieces in one direction of a connection: far more than a round trip holds."""


async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
    """Write what is read, each piece `delay` seconds after it came, and the end, too."""
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(UNDER_WAY)

    async def deliver() -> None:
        while True:
            due, data = await pieces.get()
            await asyncio.sleep(due - loop.time())
            if not data:
                writer.write_eof()
                return
            writer.write(data)
            await writer.drain()

    async def receive() -> None:
        data = b"-"
        while data:
            data = await reader.read(PIECE)
            await pieces.put((loop.time() + delay, data))

    await _together(deliver(), receive())


async def _together(*parts: Coroutine[Any, Any, None]) -> None:
    """Run some coroutines to their ends; the first that fails ends the others."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _to(upstream: str, delay: float) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    """What is done with a connection."""
    host, _, port = upstream.rpartition(":")

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = None
        with suppress(OSError):  # whoever ends a connection early has a reason, and tells the other side
            answers, there = await asyncio.open_connection(host, int(port))
            await _together(passed_on(reader, there, delay), passed_on(answers, writer, delay))
        for each in (writer, there):
            if each is not None:
                each.close()

    return connected


async def serve(delay: float, upstreams: Sequence[str]) -> None:
    """Serve until the process is ended.

    Args:
        delay: Seconds of a way, half a round trip.
        upstreams: `HOST:PORT` of each server.
    """
    servers = [await asyncio.start_server(_to(upstream, delay), "127.0.0.1", 0) for upstream in upstreams]
    print(*(server.sockets[0].getsockname()[1] for server in servers), flush=True)
    await asyncio.gather(*(server.serve_forever() for server in servers))


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1]) / 2000, sys.argv[2:]))
