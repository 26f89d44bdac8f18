# SPDX-License-Identifier: Apache-2.0
"""A blob as a stream that outlives its connections (distribution-spec, "Pulling blobs"; RFC 9110, section 14)."""

from __future__ import annotations

import io
import re
import threading
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace

import httpx

from ...errors import IntegrityError, NetworkError, OcibridgeError
from ...io.readers import PieceReader, Reader, byte_view, read_full
from ...settings import KiB, MiB
from .host import READ_AHEAD
from .http import Call, RegistryHTTP, check_identity, raw_body
from .pace import Pace
from .retry import Problem
from .transport import interrupt

PROGRESS = 16 * KiB
"""New bytes that make an attempt count as one that got somewhere."""
RANGE = 4 * MiB
"""Bytes of one request where a blob comes over several connections."""
FAR = 0.01
"""Seconds (`Host.latency`) from which a host counts as far. Of a near one, one connection is faster."""
GRACE = 2.0
"""Seconds that a host has to let go of requests that are not wanted any more."""
_LEAST = 8 * RANGE
_HEAD = MiB
_CONTENT_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19}|\*)")


def open_blob(client: RegistryHTTP, call: Call, size: int, offset: int) -> Reader:
    """Open the bytes of a blob from an offset, unverified; a large blob of a distant host uses several connections.

    Args:
        client: Sends the requests.
        call: The GET of the whole blob.
        size: Size of the blob in bytes.
        offset: First byte wanted.
    """
    if size - offset >= _LEAST and call.host.latency >= FAR:
        return RangedReader(client, call, size, offset)
    return BlobReader(client, call, size, offset)


class BlobReader(io.RawIOBase):
    """The bytes of a blob from an offset, unverified; a download that breaks is resumed where it broke.

    Args:
        client: Sends the requests.
        call: The GET of the whole blob.
        size: Size of the blob in bytes, as its descriptor says.
        offset: First byte wanted.
        end: The byte after the last one wanted; None takes `size`.

    Attributes:
        partial: Whether the registry sent the range asked for, and not the whole blob.

    Raises:
        NotFound: there is no such blob (at construction).
        NetworkError: the connection broke, again and again at the same place.
        IntegrityError: the registry sent another range or an encoding.
    """

    def __init__(self, client: RegistryHTTP, call: Call, size: int, offset: int, end: int | None = None) -> None:
        self._client = client
        self._call = call
        self._size = size
        self._end = size if end is None else end
        self._start = self._position = offset
        self._attempts = client.attempts(call, self._error)
        self._pace = Pace(call.host.options.timeouts)
        self._response: httpx.Response | None = None
        self._body: PieceReader | None = None
        self._skip = 0
        self._aborted = False
        self.partial = False
        if offset < self._end or not offset:
            self._connect()

    def readable(self) -> bool:
        """Always true."""
        return True

    def readinto(self, buffer: object, /) -> int:
        """Fill `buffer` with what has arrived, at least one byte before the end."""
        target = byte_view(buffer)
        if not target:
            return 0
        while self._body is not None:
            started = time.monotonic()
            try:
                count = self._body.readinto(target[: self._skip or len(target)])
                if not count and self._position < self._end:
                    # A body without length that simply stops looks like a whole one.
                    raise httpx.ReadError("the body ended early")
                self._pace.moved(count, time.monotonic() - started)
            except httpx.HTTPError as exc:
                if self._position < self._end:
                    self._retry(exc)
                    continue
                # All that counts has come; what breaks now is of no interest.
                count = 0
            if not count:
                self._drop()
            elif self._skip:
                self._skip -= count
            else:
                self._position += count
                self._attempts.reached(self._position - self._start, PROGRESS)
                return count
        return 0

    def abort(self) -> None:
        """Wake a thread that waits in `readinto`, which then raises a `NetworkError`; for another thread."""
        self._aborted = True
        response = self._response
        stream = None if response is None else response.extensions.get("network_stream")
        if stream is not None:
            interrupt(stream)

    def close(self) -> None:
        """Give the connection back."""
        if not self.closed:
            self._drop()
        super().close()

    def _retry(self, problem: httpx.HTTPError) -> None:
        self._drop()
        if self._aborted:
            raise NetworkError("the connection was closed by this program")
        self._call.host.failed(problem)
        self._attempts.failed(problem)
        self._connect()

    def _connect(self) -> None:
        while self._body is None:
            call, last = self._call, "" if self._end == self._size else self._end - 1
            if last != "" or self._position:
                call = replace(call, headers={**call.headers, "Range": f"bytes={self._position}-{last}"})
            try:
                response = self._client.open(call)
            except httpx.HTTPError as exc:
                self._attempts.failed(exc)
                continue
            try:
                self._accept(call, response)
            except httpx.HTTPError as exc:
                self._attempts.failed(exc)
            finally:
                if self._body is None:
                    response.close()

    def _accept(self, call: Call, response: httpx.Response) -> None:
        """Take the body of a good response; after one that is none, wait until the next try."""
        if response.status_code not in (200, 206):
            self._attempts.failed(self._client.read(call, response))
            return
        check_identity(self._call, response)
        self.partial = response.status_code == 206
        if self.partial:
            match = _CONTENT_RANGE.fullmatch(response.headers.get("content-range", "").strip())
            if not match or int(match[1]) != self._position or match[3] not in ("*", str(self._size)):
                raise IntegrityError(
                    f"{self._call.owner}: {self._call.what} failed because another range was sent than asked for",
                    hint="do not trust this registry, or the proxy before it, until it is repaired",
                )
        else:
            # The whole blob follows, whatever was asked for: whoever reads on gets all of it.
            self._end = self._size
        self._skip = 0 if self.partial else self._position
        self._pace = Pace(self._call.host.options.timeouts)
        self._response = response
        self._body = PieceReader(raw_body(response))

    def _error(self, problem: Problem, tries: int) -> OcibridgeError:
        error = self._client.error(self._call, problem, tries)
        if isinstance(error, NetworkError) and self._position and tries > 1:
            error.message += f", each time by byte {self._position} of {self._size}"
            error.args = (error.message,)
        return error

    def _drop(self) -> None:
        response, self._response, self._body = self._response, None, None
        if response is not None:
            response.close()


class RangedReader(io.RawIOBase):
    """Reads ranges ahead, each over its own connection, and gives them in their order; see `BlobReader`.

    All readers of a host share its permits to read ahead, so memory stays bounded however many blobs are read. A
    registry that does not know ranges is read as one stream.
    """

    def __init__(self, client: RegistryHTTP, call: Call, size: int, offset: int) -> None:
        self._client = client
        self._call = call
        self._permits = call.host.read_ahead
        self._size = size
        self._next = min(size, offset + RANGE)
        self._reader: BlobReader | None = BlobReader(client, call, size, offset, self._next)
        if not self._reader.partial:
            self._next = size
        self._given = 0
        self._range = memoryview(b"")
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
        target = byte_view(buffer)
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
                    # The host does not respond: all other requests to it fail, too.
                    self._call.host.interrupt()
                self._pool.shutdown(wait=True)
            for _ in range(len(self._ahead) + self._holds):
                self._permits.release()
            self._ahead.clear()
        super().close()

    def _some(self, target: memoryview) -> int:
        if self._reader is not None:
            return self._reader.readinto(target)
        count = min(len(target), len(self._range))
        target[:count] = self._range[:count]
        self._range = self._range[count:]
        return count

    def _advance(self) -> bool:
        """Go to the next range; False at the end."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        if self._holds:
            self._permits.release()
            self._holds = False
        if self._ahead:
            found = self._ahead[0].result()
            self._ahead.popleft()
            self._range, self._holds = found, True
        elif self._next < self._size:
            # Other blobs have all permits: read on without one.
            start, self._next = self._next, min(self._size, self._next + RANGE)
            self._reader = BlobReader(self._client, self._call, self._size, start, self._next)
            if not self._reader.partial:
                self._next = self._size
        else:
            return False
        return True

    def _read_ahead(self) -> None:
        # Whoever only looks at the head of a blob causes no more traffic than that.
        if self._given < _HEAD:
            return
        while self._next < self._size and self._permits.acquire(blocking=False):
            self._pool = self._pool or ThreadPoolExecutor(READ_AHEAD, thread_name_prefix="ocibridge-range")
            start, self._next = self._next, min(self._size, self._next + RANGE)
            self._ahead.append(self._pool.submit(self._fetch, start, self._next))

    def _fetch(self, start: int, end: int) -> memoryview:
        with BlobReader(self._client, self._call, self._size, start, end) as reader:
            with self._lock:
                self._active.add(reader)
            try:
                buffer = memoryview(bytearray(end - start))
                return buffer[: read_full(reader, buffer)]
            finally:
                with self._lock:
                    self._active.discard(reader)
