# SPDX-License-Identifier: Apache-2.0
"""A blob as a stream that outlives its connection (distribution-spec, "Pulling blobs"; RFC 9110, section 14)."""

from __future__ import annotations

import io
import re
import time
from dataclasses import replace

import httpx

from ...content import writable
from ...errors import IntegrityError, NetworkError, StoreError
from ...settings import KiB
from .http import Attempts, Call, Host
from .lines import interrupt
from .messages import Reply, say_where
from .pace import Pace
from .problems import Answer

PROGRESS = 16 * KiB
"""Bytes that make an attempt count as one that got somewhere."""
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
        self._reply: Reply | None = None
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
        while self._reply is not None:
            started = time.monotonic()
            try:
                count = self._reply.body.readinto(target[: self._skip or len(target)])
                if not count and self._position < self._end:
                    # A body without length that simply stops looks like a whole one.
                    raise httpx.ReadError(_EARLY)
                self._came(count, started)
            except httpx.HTTPError as exc:
                if self._position < self._end:
                    say_where(exc, self._reply.request)
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
                return count
        return 0

    def abort(self) -> None:
        """Wake a thread that waits in `readinto`, which then raises a `NetworkError`; for another thread."""
        self._aborted = True
        reply = self._reply
        if reply is not None and reply.line is not None:
            interrupt(reply.line)

    def close(self) -> None:
        """Give the connection back."""
        if not self.closed:
            self._drop()
        super().close()

    def _came(self, count: int, started: float) -> None:
        self._arrived += count
        if self._arrived >= PROGRESS:
            self._arrived = 0
            self._attempts.progress()
        self._pace.moved(count, time.monotonic() - started)

    def _retry(self, problem: httpx.HTTPError | Answer) -> None:
        self._drop()
        self._arrived = 0
        if self._aborted:
            raise NetworkError("the connection was closed by this program")
        self._attempts.failed(problem)
        self._connect()

    def _connect(self) -> None:
        while True:
            call, last = self._call, "" if self._end == self._size else self._end - 1
            if last or self._position:
                call = replace(call, headers={**call.headers, "Range": f"bytes={self._position}-{last}"})
            try:
                reply = self._host.open(call)
            except httpx.HTTPError as exc:
                self._attempts.failed(exc)
                continue
            try:
                skip = self._check(call, reply)
            except httpx.HTTPError as exc:
                reply.close()
                self._attempts.failed(exc)
                continue
            except BaseException:
                reply.close()
                raise
            if skip is None:
                reply.close()
                continue
            self._pace = Pace(self._host.options.timeouts)
            self._skip = skip
            self._reply = reply
            return

    def _check(self, call: Call, reply: Reply) -> int | None:
        """Bytes to skip at the start of a good answer; None after a wait where it was none."""
        if reply.status not in (200, 206):
            self._attempts.failed(self._host.answer(call, reply))
            return None
        encoding = reply.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            raise StoreError(
                f"{self._call.owner}: {self._call.what} failed because the answer is encoded, which changes its bytes",
                hint="switch compression off in the proxy before the registry",
            )
        self.partial = reply.status == 206
        if not self.partial:
            # The whole blob follows, whatever was asked for: whoever reads on gets all of it.
            self._end = self._size
            return self._position
        match = _CONTENT_RANGE.fullmatch(reply.headers.get("content-range", "").strip())
        total = str(self._size)
        if not match or int(match[1]) != self._position or match[3] not in ("*", total):
            raise IntegrityError(
                f"{self._call.owner}: {self._call.what} failed because another range was sent than asked for",
                hint="do not trust this registry, or the proxy before it, until it is repaired",
            )
        return 0

    def _drop(self) -> None:
        reply, self._reply = self._reply, None
        if reply is not None:
            reply.close()
