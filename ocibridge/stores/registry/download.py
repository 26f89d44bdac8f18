# SPDX-License-Identifier: Apache-2.0
"""A blob as a stream that outlives its connection (distribution-spec, "Pulling blobs"; RFC 9110, section 14)."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import replace

import httpx

from ...content import writable
from ...errors import IntegrityError, StoreError
from .http import Attempts, Call, Host
from .problems import Answer

_CONTENT_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19}|\*)")


class BlobReader(io.RawIOBase):
    """The bytes of a blob from an offset, unverified; a dropped line is taken up where it broke.

    Args:
        host: The registry.
        call: The GET of the whole blob.
        size: Size of the blob in bytes, as its descriptor says.
        offset: First byte wanted.

    Raises:
        NotFound: there is no such blob (at construction).
        NetworkError: the line broke and stayed broken.
        IntegrityError: the registry answered with another range or an encoding.
    """

    def __init__(self, host: Host, call: Call, size: int, offset: int) -> None:
        self._host = host
        self._call = call
        self._size = size
        self._position = offset
        self._attempts = Attempts(host, call)
        self._response: httpx.Response | None = None
        self._pieces: Iterator[bytes] = iter(())
        self._rest = memoryview(b"")
        if offset < size or not offset:
            self._connect()

    def readable(self) -> bool:
        """Always true."""
        return True

    def readinto(self, buffer: object, /) -> int:
        """Fill `buffer` with what has arrived, at least one byte before the end."""
        target = writable(buffer)
        if not target:
            return 0
        while not self._rest:
            piece = self._next()
            if piece is None:
                return 0
            self._rest = memoryview(piece)
        count = min(len(target), len(self._rest))
        target[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        self._position += count
        return count

    def close(self) -> None:
        """Give the connection back."""
        if not self.closed:
            self._drop()
        super().close()

    def _next(self) -> bytes | None:
        """The next piece, or None at the end."""
        while self._response is not None:
            try:
                piece = next(self._pieces, None)
            except httpx.HTTPError as exc:
                self._retry(exc)
                continue
            if piece:
                self._attempts.progress()
                return piece
            if piece is None:
                if self._position >= self._size:
                    self._drop()
                    return None
                # A body without length that simply stops looks like a whole one.
                self._retry(httpx.RemoteProtocolError("the body ended early"))
        return None

    def _retry(self, problem: httpx.HTTPError | Answer) -> None:
        self._drop()
        self._attempts.failed(problem)
        self._connect()

    def _connect(self) -> None:
        while True:
            headers = dict(self._call.headers)
            if self._position:
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
        if response.status_code == 200:
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
        if self._response is not None:
            self._response.close()
            self._response = None


def _after(pieces: Iterator[bytes], skip: int) -> Iterator[bytes]:
    for piece in pieces:
        if skip >= len(piece):
            skip -= len(piece)
        else:
            yield piece[skip:] if skip else piece
            skip = 0
