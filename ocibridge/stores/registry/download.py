# SPDX-License-Identifier: Apache-2.0
"""A blob as a stream that outlives its connection (distribution-spec, "Pulling blobs"; RFC 9110, section 14)."""

from __future__ import annotations

import io
import re
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import httpx

from ...content import writable
from ...errors import IntegrityError, NetworkError, StoreError
from ...settings import KiB, MiB
from .http import Attempts, Call, Host
from .pace import Pace
from .problems import Answer

PROGRESS = 16 * KiB
"""Bytes that make an attempt count as one that got somewhere."""
_TAKE_OVER = MiB
_EARLY = "the body ended early"
_CONTENT_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19}|\*)")


class BlobReader(io.RawIOBase):
    """The bytes of a blob from an offset, unverified; a dropped line is taken up where it broke.

    Args:
        host: The registry.
        call: The GET of the whole blob.
        size: Size of the blob in bytes, as its descriptor says.
        offset: First byte wanted.
        end: The byte after the last one wanted; None takes `size`.

    Attributes:
        partial: Whether the registry sent the range asked for, and not the whole blob.

    Raises:
        NotFound: there is no such blob (at construction).
        NetworkError: the line broke and stayed broken.
        IntegrityError: the registry answered with another range or an encoding.
    """

    def __init__(self, host: Host, call: Call, size: int, offset: int, end: int | None = None) -> None:
        self._host = host
        self._call = call
        self._size = size
        self._end = size if end is None else end
        self._position = offset
        self._attempts = Attempts(host, call)
        self._arrived = 0
        self._pace = Pace(self._host.options.timeouts)
        self._response: httpx.Response | None = None
        self._pieces: Iterator[bytes] = iter(())
        self._rest = memoryview(b"")
        self._socket: socket.socket | None = None
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
        target = writable(buffer)
        if not target:
            return 0
        while True:
            if self._rest:
                count = min(len(target), len(self._rest))
                target[:count] = self._rest[:count]
                self._rest = self._rest[count:]
            elif self._socket is not None:
                if self._position >= self._end:
                    self._drop()
                    return 0
                count = self._receive(self._socket, target[: self._end - self._position])
                if not count:
                    continue
            else:
                piece = self._next()
                if piece is None:
                    return 0
                self._rest = memoryview(piece)
                continue
            self._position += count
            return count

    def abort(self) -> None:
        """Wake a thread that waits in `readinto`, which then raises a `NetworkError`; for another thread."""
        self._aborted = True
        response = self._response
        stream = response.extensions.get("network_stream") if response is not None else None
        if stream is not None:
            with suppress(OSError):
                stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Give the connection back."""
        if not self.closed:
            self._drop()
        super().close()

    def _receive(self, line: socket.socket, target: memoryview) -> int:
        """Bytes straight from the connection into `target`; 0 after a new connection had to be made."""
        started = time.monotonic()
        try:
            count = line.recv_into(target)
            if not count:
                raise httpx.ReadError(_EARLY)
            self._came(count, started)
            return count
        except TimeoutError:
            self._retry(httpx.ReadTimeout("no byte has come in time"))
        except OSError as exc:
            self._retry(httpx.ReadError(str(exc)))
        except httpx.HTTPError as exc:
            self._retry(exc)
        return 0

    def _next(self) -> bytes | None:
        """The next piece, or None at the end."""
        while self._response is not None:
            started = time.monotonic()
            try:
                piece = next(self._pieces, None)
                if piece:
                    self._came(len(piece), started)
            except httpx.HTTPError as exc:
                if self._position >= self._end:
                    # All that counts has come; what breaks now is of no interest.
                    self._drop()
                    return None
                self._retry(exc)
                continue
            if piece:
                self._take_over(len(piece))
                return piece
            if piece is None:
                if self._position >= self._end:
                    self._drop()
                    return None
                # A body without length that simply stops looks like a whole one.
                self._retry(httpx.ReadError(_EARLY))
        return None

    def _came(self, count: int, started: float) -> None:
        self._arrived += count
        if self._arrived >= PROGRESS:
            self._arrived = 0
            self._attempts.progress()
        self._pace.moved(count, time.monotonic() - started)

    def _take_over(self, first: int) -> None:
        """Read the rest of a long body from the connection itself, without the copies that parsing it costs.

        The parser has handed out all that it had when it gives the first piece. It does not see the body's end, so the
        connection is not used again.
        """
        response = self._response
        if response is None or self._socket is not None or "transfer-encoding" in response.headers:
            return
        length = response.headers.get("content-length", "")
        due = self._end - self._position
        if not length.isdigit() or int(length) - first < _TAKE_OVER or due - first < _TAKE_OVER:
            return
        if self._skip or int(length) != due:
            return
        stream = response.extensions.get("network_stream")
        line = stream.get_extra_info("socket") if stream is not None else None
        if isinstance(line, socket.socket) and _carries(line, response.url):
            line.settimeout(self._host.options.timeouts.read)
            self._socket = line

    def _retry(self, problem: httpx.HTTPError | Answer) -> None:
        self._drop()
        self._arrived = 0
        if self._aborted:
            raise NetworkError("the connection was closed by this program")
        self._attempts.failed(problem)
        self._connect()

    def _connect(self) -> None:
        while True:
            headers = dict(self._call.headers)
            if self._end < self._size:
                headers["Range"] = f"bytes={self._position}-{self._end - 1}"
            elif self._position:
                headers["Range"] = f"bytes={self._position}-"
            call = replace(self._call, headers=headers)
            try:
                response = self._host.open(call)
            except httpx.HTTPError as exc:
                self._attempts.failed(exc)
                continue
            try:
                skip = self._check(call, response)
            except httpx.HTTPError as exc:
                response.close()
                self._attempts.failed(exc)
                continue
            except BaseException:
                response.close()
                raise
            if skip is None:
                response.close()
                continue
            self._pace = Pace(self._host.options.timeouts)
            self._skip = skip
            self._response = response
            self._pieces = _after(response.iter_raw(), skip)
            return

    def _check(self, call: Call, response: httpx.Response) -> int | None:
        """Bytes to skip at the start of a good response; None after a wait where it was none."""
        if response.status_code not in (200, 206):
            self._attempts.failed(self._host.answer(call, response))
            return None
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            raise StoreError(
                f"{self._call.owner}: {self._call.what} failed because the answer is encoded, which changes its bytes",
                hint="switch compression off in the proxy before the registry",
            )
        self.partial = response.status_code == 206
        if not self.partial:
            # The whole blob follows, whatever was asked for: whoever reads on gets all of it.
            self._end = self._size
            return self._position
        match = _CONTENT_RANGE.fullmatch(response.headers.get("content-range", "").strip())
        total = str(self._size)
        if not match or int(match[1]) != self._position or match[3] not in ("*", total):
            raise IntegrityError(
                f"{self._call.owner}: {self._call.what} failed because another range was sent than asked for",
                hint="do not trust this registry, or the proxy before it, until it is repaired",
            )
        return 0

    def _drop(self) -> None:
        self._rest = memoryview(b"")
        self._socket = None
        if self._response is not None:
            self._response.close()
            self._response = None


def _carries(line: socket.socket, url: httpx.URL) -> bool:
    """Whether `line` carries the very bytes of the answer, and not those of a tunnel within it."""
    if url.scheme == "http":
        return type(line) is socket.socket
    return isinstance(line, ssl.SSLSocket) and line.server_hostname == url.raw_host.decode()


def _after(pieces: Iterator[bytes], skip: int) -> Iterator[bytes]:
    for piece in pieces:
        if skip >= len(piece):
            skip -= len(piece)
        else:
            yield piece[skip:] if skip else piece
            skip = 0
