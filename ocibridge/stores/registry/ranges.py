# SPDX-License-Identifier: Apache-2.0
"""A large blob over several connections at once, for lines on which one is slow: far ones, and limited ones."""

from __future__ import annotations

import io
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor, wait

from ...content import Reader, fill, writable
from ...settings import MiB
from .download import BlobReader
from .http import LANES, Call, Host

PIECE = 4 * MiB
"""Bytes of one request."""
FAR = 0.01
"""Seconds (`Host.latency`) from which a line counts as far. On a near one, one connection is faster."""
GRACE = 2.0
"""Seconds that a host has to let go of requests that are not wanted any more."""
_LEAST = 8 * PIECE
_HEAD = MiB


def open_blob(host: Host, call: Call, size: int, offset: int) -> Reader:
    """The bytes of a blob from an offset, unverified, over as many connections as pay.

    Args:
        host: The registry.
        call: The GET of the whole blob.
        size: Size of the blob in bytes.
        offset: First byte wanted.
    """
    if size - offset >= _LEAST and host.latency >= FAR:
        return RangedReader(host, call, size, offset)
    return BlobReader(host, call, size, offset)


class RangedReader(io.RawIOBase):
    """Reads pieces ahead, each over its own connection, and gives them in their order; see `BlobReader`.

    All readers of a host share its lanes, so memory stays bounded however many blobs are read. A registry that does not
    know ranges is read as one stream.
    """

    def __init__(self, host: Host, call: Call, size: int, offset: int) -> None:
        self._host = host
        self._call = call
        self._size = size
        self._next = min(size, offset + PIECE)
        self._reader: BlobReader | None = BlobReader(host, call, size, offset, self._next)
        if not self._reader.partial:
            self._next = size
        self._given = 0
        self._piece = memoryview(b"")
        self._holds = False
        self._ahead: deque[Future[memoryview]] = deque()
        self._active: set[BlobReader] = set()
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None

    def readable(self) -> bool:
        """Always true."""
        return True

    def readinto(self, buffer: object, /) -> int:
        """Fill `buffer` with what has arrived, at least one byte before the end."""
        target = writable(buffer)
        while target:
            count = self._some(target)
            if count:
                self._given += count
                self._read_ahead()
                return count
            if not self._advance():
                break
        return 0

    def close(self) -> None:
        """Give the connections back, and end the threads."""
        if not self.closed:
            if self._reader is not None:
                self._reader.close()
            with self._lock:
                for reader in self._active:
                    reader.abort()
            if self._pool is not None:
                self._pool.shutdown(wait=False, cancel_futures=True)
                if wait(self._ahead, timeout=GRACE).not_done:
                    # The host does not even answer: whoever else waits for it waits in vain, too.
                    self._host.interrupt()
                self._pool.shutdown(wait=True)
            for _ in range(len(self._ahead) + self._holds):
                self._host.lanes.release()
            self._ahead.clear()
        super().close()

    def _some(self, target: memoryview) -> int:
        if self._reader is not None:
            return self._reader.readinto(target)
        count = min(len(target), len(self._piece))
        target[:count] = self._piece[:count]
        self._piece = self._piece[count:]
        return count

    def _advance(self) -> bool:
        """Go to the next piece; False at the end."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        if self._holds:
            self._host.lanes.release()
            self._holds = False
        if self._ahead:
            piece = self._ahead[0].result()
            self._ahead.popleft()
            self._piece, self._holds = piece, True
        elif self._next < self._size:
            # Every lane is taken by other blobs: this one goes on by itself.
            start, self._next = self._next, min(self._size, self._next + PIECE)
            self._reader = BlobReader(self._host, self._call, self._size, start, self._next)
            if not self._reader.partial:
                self._next = self._size
        else:
            return False
        return True

    def _read_ahead(self) -> None:
        # Whoever only looks at the head of a blob causes no more traffic than that.
        if self._given < _HEAD:
            return
        while self._next < self._size and self._host.lanes.acquire(blocking=False):
            self._pool = self._pool or ThreadPoolExecutor(LANES, thread_name_prefix="ocibridge-range")
            start, self._next = self._next, min(self._size, self._next + PIECE)
            self._ahead.append(self._pool.submit(self._fetch, start, self._next))

    def _fetch(self, start: int, end: int) -> memoryview:
        with BlobReader(self._host, self._call, self._size, start, end) as reader:
            with self._lock:
                self._active.add(reader)
            try:
                buffer = memoryview(bytearray(end - start))
                return buffer[: fill(reader, buffer)]
            finally:
                with self._lock:
                    self._active.discard(reader)
