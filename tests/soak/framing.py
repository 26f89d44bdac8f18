# SPDX-License-Identifier: Apache-2.0
"""Which bytes of an HTTP/1.1 connection are heads, framing and content (RFC 9112, sections 6 and 7)."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator

HEAD, FRAME, CONTENT = "head", "frame", "content"
"""A request or response up to its blank line; sizes and line ends of chunks; what the message holds."""

_LENGTH = re.compile(rb"^content-length:[ \t]*(\d+)", re.IGNORECASE | re.MULTILINE)
_CHUNKED = re.compile(rb"^transfer-encoding:[^\r\n]*chunked", re.IGNORECASE | re.MULTILINE)
_NEVER = float("inf")


class Frames:
    """One direction of a connection, taken apart as it passes.

    Args:
        waiting: First lines of the requests that have no response yet. The direction to the server adds to it, the
            other one takes from it, as the response to HEAD has no content.
        responses: Whether this is the direction from the server.

    Attributes:
        request: First line of the request that the last part belongs to, or that it answers.
    """

    def __init__(self, waiting: deque[bytes], *, responses: bool) -> None:
        self._waiting = waiting
        self._responses = responses
        self._state = HEAD
        self._line = bytearray()
        self._left: float = 0
        self._after = HEAD
        self.request = b""

    def split(self, data: bytes) -> Iterator[tuple[str, bytes]]:
        """The parts of `data`, each with what it is."""
        while data:
            what, used = self._step(data)
            yield what, data[:used]
            data = data[used:]

    def _step(self, data: bytes) -> tuple[str, int]:
        if self._state == HEAD:
            return HEAD, self._collect(data, b"\r\n\r\n", self._begin)
        if self._state == CONTENT:
            return CONTENT, self._skip(data)
        act = {"size": self._chunk, "line end": self._end, "trailer": self._trailer}[self._state]
        return FRAME, self._collect(data, b"\n", act)

    def _skip(self, data: bytes) -> int:
        used = int(min(self._left, len(data)))
        self._left -= used
        if not self._left:
            self._state = self._after
        return used

    def _collect(self, data: bytes, end: bytes, act: Callable[[bytes], None]) -> int:
        before = len(self._line)
        self._line += data
        found = self._line.find(end, max(0, before - len(end)))
        if found < 0:
            return len(data)
        line = bytes(self._line[:found])
        self._line.clear()
        act(line)
        return found + len(end) - before

    def _begin(self, head: bytes) -> None:
        """What comes after a head."""
        length = _LENGTH.search(head)
        if not self._may_have_content(head):
            self._content(0)
        elif _CHUNKED.search(head):
            self._state = "size"
        elif length:
            self._content(int(length[1]))
        else:
            self._content(_NEVER if self._responses else 0)

    def _may_have_content(self, head: bytes) -> bool:
        if not self._responses:
            self.request = head.partition(b"\r\n")[0]
            self._waiting.append(self.request)
            return True
        status = head.partition(b" ")[2][:3]
        if status.startswith(b"1"):
            return False
        self.request = self._waiting.popleft() if self._waiting else b""
        return not self.request.startswith(b"HEAD ") and status not in (b"204", b"304")

    def _content(self, left: float, after: str = HEAD) -> None:
        self._left, self._after = left, after
        self._state = CONTENT if left else after

    def _chunk(self, line: bytes) -> None:
        size = int(line.partition(b";")[0], 16)
        if size:
            self._content(size, "line end")
        else:
            self._state = "trailer"

    def _end(self, _: bytes) -> None:
        self._state = "size"

    def _trailer(self, line: bytes) -> None:
        if not line.strip():
            self._state = HEAD
