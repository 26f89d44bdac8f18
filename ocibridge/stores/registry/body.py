# SPDX-License-Identifier: Apache-2.0
"""Request bodies."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import cast

import httpx

from ...errors import IntegrityError
from ...io.content import BytesContent, Content
from ...io.readers import ByteCount, chunks, ignore_bytes
from ...settings import KiB
from .options import Timeouts
from .pace import Pace

_PART = 16 * KiB
_PROMPT = 1.0
SEND_SIZE = 256 * KiB
"""Bytes handed to the socket at once; larger pieces are copied more often on their way than they save calls."""


def as_piece(view: memoryview) -> bytes:
    """A view as bytes, as it is sent; copying it would cost as much as sending it."""
    return cast(bytes, view)


class ContentBody:
    """A range of a content, opened again for each attempt.

    Args:
        content: The bytes.
        offset: First byte to send.
        length: Bytes to send; None sends the rest, which must then be the content's end.
        on_bytes: Called with the number of bytes handed to the connection. Before the body is sent again, a negative
            number takes back the bytes that did not count.
    """

    def __init__(
        self, content: Content, offset: int = 0, length: int | None = None, on_bytes: ByteCount = ignore_bytes
    ) -> None:
        self._content = content
        self._offset = offset
        self._to_end = length is None
        self.length = content.size - offset if length is None else length
        self._on_bytes = on_bytes
        self._sent = 0

    def __iter__(self) -> Iterator[bytes]:
        """The bytes, from the start; each piece is valid until the next one.

        Raises:
            IntegrityError: the content is shorter or longer than its size.
        """
        self.take_back()
        left = self.length
        with self._content.open(self._offset) as reader:
            for view in chunks(reader, max(1, min(SEND_SIZE, left))):
                piece = as_piece(view[:left])
                if len(piece) < len(view) and self._to_end:
                    raise self._changed()
                left -= len(piece)
                if not left and self._to_end and reader.read(1):
                    raise self._changed()
                if piece:
                    yield piece
                    self._sent += len(piece)
                    self._on_bytes(len(piece))
                if not left:
                    break
        if left:
            raise self._changed()

    def take_back(self) -> None:
        """Say that the bytes sent so far did not count."""
        if self._sent:
            self._on_bytes(-self._sent)
            self._sent = 0

    @staticmethod
    def _changed() -> IntegrityError:
        return IntegrityError(
            "the source changed its size while it was read",
            hint="run the command again once nothing writes to it",
        )


class BodyConsumed(httpx.TransportError):
    """A body was asked for again, which it cannot be."""


class OnceBody(ContentBody):
    """A body that can be sent once.

    Args:
        pieces: The bytes.
        length: Their number.
        on_bytes: See `ContentBody`.
    """

    def __init__(self, pieces: Iterator[memoryview | bytes], length: int, on_bytes: ByteCount) -> None:
        super().__init__(BytesContent(b""), 0, length, on_bytes)
        self._pieces = pieces
        self._consumed = False

    def __iter__(self) -> Iterator[bytes]:
        """The bytes.

        Raises:
            BodyConsumed: they were sent before.
            IntegrityError: there are more than there should be.
        """
        if self._consumed:
            raise BodyConsumed("the body cannot be sent again")
        self._consumed = True
        left = self.length
        for piece in self._pieces:
            view = memoryview(piece)
            for start in range(0, len(view), SEND_SIZE):
                part = as_piece(view[start : start + SEND_SIZE])
                left -= len(part)
                if left < 0:
                    raise self._changed()
                yield part
                self._on_bytes(len(part))


class SteadyBody:
    """A request body that is given up when the other side hardly takes any of it.

    Args:
        body: The body; it can be iterated again for each try.
        timeouts: See `Pace`.
    """

    def __init__(self, body: Iterable[bytes], timeouts: Timeouts) -> None:
        self._body = body
        self._timeouts = timeouts

    def __iter__(self) -> Iterator[bytes]:
        """The bytes, from the start.

        Raises:
            TooSlow: see `Pace.moved`.
        """
        pace = Pace(self._timeouts)
        # Nothing can be measured while one part is being taken, so parts are small until they go fast.
        size = _PART
        for piece in self._body:
            position = 0
            while position < len(piece):
                part = piece[position : position + size]
                start = time.monotonic()
                yield part
                seconds = time.monotonic() - start
                pace.moved(len(part), seconds)
                position += len(part)
                size = 2 * size if seconds < _PROMPT else _PART
