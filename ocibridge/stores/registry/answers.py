# SPDX-License-Identifier: Apache-2.0
"""What comes back on a line: the head of an answer, and its body as far as that goes (RFC 9112, sections 6 and 9)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import httptools
import httpx

from ...settings import KiB
from .messages import CHALLENGES

if TYPE_CHECKING:
    from .lines import Line

MOST = 128 * KiB
"""Bytes that may come in a row without being of a body: heads, trailers, and what stands between chunks."""
_PIECE = 256 * KiB
_GONE = "the server disconnected without an answer"
_EARLY = "the server closed connection before the end of the body"


class Answers:
    """The answer to one request, and those before it that only inform (1xx).

    Args:
        line: Where it comes from.
        bare: Whether no body follows whatever the head says, as with HEAD.
        seconds: How long nothing may come.

    Attributes:
        status: HTTP status; 0 before the head is there.
        headers: Header fields; see `messages.Reply`.
    """

    def __init__(self, line: Line, bare: bool, seconds: float | None) -> None:
        self._line = line
        self._bare = bare
        self._seconds = seconds
        self.status = 0
        self.headers: dict[str, str] = {}
        self._version = ""
        self._pieces: deque[memoryview] = deque()
        self._idle = 0
        self._whole = False
        self._more = False
        self._left: int | None = None
        self._chunked = False
        self._keep = False
        # It knows this object, and this object it: that is undone at the end, or each answer would wait for the
        # collector of cycles.
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)

    # What the parser calls.

    def on_message_begin(self) -> None:
        """Another answer begins."""
        self._more = self._more or self._whole

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header field, or one of a trailer, which nobody needs."""
        if self.status:
            return
        key, text = name.decode("latin-1").lower(), _text(value)
        if key in self.headers:
            text = self.headers[key] + ("\n" if key == CHALLENGES else ", ") + text
        self.headers[key] = text

    def on_headers_complete(self) -> None:
        """The head of an answer has come."""
        if self._parser is None or self.status:
            return
        status = self._parser.get_status_code()
        if status < 200:
            self.headers = {}
            return
        self._version = self._parser.get_http_version()
        self.status = status

    def on_body(self, data: bytes) -> None:
        """Some of the body."""
        if self._bare or self._whole:
            self._more = True
        else:
            self._pieces.append(memoryview(data))

    def on_message_complete(self) -> None:
        """The end of an answer."""
        self._whole = self._whole or self.status != 0

    # Reading.

    def read_head(self) -> None:
        """Read up to the head of the answer that counts.

        Raises:
            httpx.TransportError: the line broke, or this is no HTTP.
        """
        while not self.status:
            data = self._line.receive(self._seconds)
            if not data:
                raise httpx.RemoteProtocolError(_GONE)
            self._feed(data)
        coding, length = self.headers.get("transfer-encoding"), self.headers.get("content-length")
        if self._bare or self.status in (204, 304):
            self._whole = True
        elif coding is not None:
            self._chunked = coding.lower().endswith("chunked")
        elif length is not None:
            self._left = int(length) - sum(map(len, self._pieces))
            self._whole = self._left == 0
        self._keep = self._version == "1.1" and "close" not in self.headers.get("connection", "").lower()
        if self._whole:
            self._parser = None

    @property
    def reusable(self) -> bool:
        """Whether the line may be used again once the body is at its end."""
        return self._keep and (self._whole or self._chunked or self._left is not None)

    @property
    def in_step(self) -> bool:
        """Whether the body is at its end, and nothing has come after it."""
        return self._whole and not self._more and not self._pieces

    def read_into(self, target: memoryview) -> int:
        """Some bytes of the body; 0 at its end.

        Raises:
            httpx.TransportError: the line broke, or this is no HTTP.
        """
        while True:
            if self._pieces:
                piece = self._pieces.popleft()
                count = min(len(target), len(piece))
                target[:count] = piece[:count]
                if count < len(piece):
                    self._pieces.appendleft(piece[count:])
                return count
            if self._whole:
                return 0
            if self._left is not None:
                count = self._line.receive_into(target[: self._left], self._seconds)
                if not count:
                    raise httpx.RemoteProtocolError(_EARLY)
                self._left -= count
                if not self._left:
                    self._end()
                return count
            data = self._line.receive(self._seconds)
            if not data:
                if self._chunked:
                    raise httpx.RemoteProtocolError(_EARLY)
                self._end()
                return 0
            self._feed(data)

    def pieces(self) -> Iterator[bytes]:
        """The body, piece by piece."""
        while self._pieces:
            yield bytes(self._pieces.popleft())
        if not self._whole:
            buffer = memoryview(bytearray(min(_PIECE, self._left or _PIECE)))
            while count := self.read_into(buffer):
                yield bytes(buffer[:count])

    def _end(self) -> None:
        self._whole = True
        self._parser = None

    def _feed(self, data: bytes) -> None:
        if self._parser is None:
            self._more = True
            return
        self._idle += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as exc:
            if not self._whole:
                raise httpx.RemoteProtocolError(f"this is no HTTP/1.1: {exc}") from exc
            self._more = True
        if self._pieces:
            self._idle = 0
        elif self._idle > MOST:
            raise httpx.RemoteProtocolError("too much comes before the body")
        if self._whole and self.status:
            self._parser = None


class LineBody:
    """The body of an answer on a line; see `messages.Body`.

    Args:
        answers: Where it comes from.
        done: Called once with whether the line is in step: at its end, with nothing after it.
    """

    def __init__(self, answers: Answers, done: Callable[[bool], None]) -> None:
        self._answers = answers
        self._done: Callable[[bool], None] | None = done

    def readinto(self, target: memoryview, /) -> int:
        """See `Answers.read_into`."""
        return self._answers.read_into(target)

    def __iter__(self) -> Iterator[bytes]:
        """See `Answers.pieces`."""
        return self._answers.pieces()

    def close(self) -> None:
        """Give the line back, or give it up where something of the body was not read."""
        done, self._done = self._done, None
        if done is not None:
            done(self._answers.in_step)


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
