# SPDX-License-Identifier: Apache-2.0
"""Sending a blob while it is hashed (distribution-spec, "Pushing a blob in chunks").

The digest is needed last, so all bytes go in a PATCH before it: one without Content-Range, as docker and podman send
them, or chunks where the size is not known. Whatever goes wrong, the blob is then pushed as one whose digest is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from weakref import WeakSet

import httpx

from ...content import BytesContent, Concatenation, Content
from ...layers import OnePass
from ...model import ByteCount
from ...settings import MiB
from .body import SEND_SIZE, ContentBody, as_piece
from .http import Host
from .notes import UploadNote
from .problems import Answer
from .session import Problem, UploadSession

CHUNK = 4 * MiB
"""Bytes of one PATCH, or little more, where the size of the blob is not known; they wait in memory."""
_ONE_SHOT = ("ghcr.io", "public.ecr.aws", "gcr.io", ".gcr.io", ".pkg.dev", ".amazonaws.com", ".amazonaws.com.cn")
_refused: WeakSet[Host] = WeakSet()


def takes_streams(host: Host) -> bool:
    """Whether a registry may take a blob by PATCH, as far as its name or this process knows."""
    name = host.origin.host
    return host not in _refused and not any(
        name == each or (each[0] == "." and name.endswith(each)) for each in _ONE_SHOT
    )


class BlobStream:
    """One blob of unknown digest on its way to one repository.

    Args:
        host: The registry.
        repository: Repository on it.
        reading: The bytes.
        on_bytes: Told the bytes handed to the connection; a negative number takes them back.
        note: What an earlier process may have left of this upload, and what this one may leave.
    """

    def __init__(self, host: Host, repository: str, reading: OnePass, on_bytes: ByteCount, note: UploadNote) -> None:
        self._host = host
        self._reading = reading
        self._on_bytes = on_bytes
        self._note = note
        self._counted = 0
        self._session = UploadSession(host, repository, f"pushing {reading.label}", note)

    def run(self) -> bool:
        """Send the blob; False where the registry did not take it, though another form of upload may do.

        Where the line broke, the note stays for that other form.

        Raises:
            IntegrityError: a file of the layer is not what its format promises, or the registry does wrong.
            SourceError: it cannot be read.
            StoreError: the registry starts no upload.
        """
        try:
            problem = self._send()
            if isinstance(problem, httpx.HTTPError) and self._note.kept:
                # What arrived of it may count for the upload that knows the digest.
                self._note.rename(self._reading.finish().digest)
        except BaseException as exc:
            self._session.leave(exc)
            self._count(-self._counted)
            raise
        if problem is None:
            self._note.forget()
            return True
        _refused.add(self._host)
        if isinstance(problem, Answer):
            self._note.forget()
        self._session.leave(None)
        self._count(-self._counted)
        return False

    def _send(self) -> Problem | None:
        size = self._reading.size
        offset = (self._session.kept() or 0) if self._session.open else 0
        if not 0 < offset <= (size or 0):
            offset = 0
            self._session.cancel()
            self._session.start()
        problem = self._patches() if size is None else self._patch(size, offset)
        return problem or self._session.close(self._reading.finish().digest)

    def _patch(self, size: int, offset: int) -> Problem | None:
        """Send what follows `offset`; what the registry has of an earlier try is only hashed."""
        rest, left = memoryview(b""), offset
        while left:
            piece = memoryview(next(self._reading))
            rest, skipped = piece[left:], min(left, len(piece))
            left -= skipped
            self._count(skipped)
        if offset == size:
            return None
        body = _StreamBody(chain((rest,), self._reading), size - offset, self._count)
        return self._session.patch(body, offset or None)

    def _patches(self) -> Problem | None:
        """Send what is compressed, chunk by chunk."""
        least = max(CHUNK, self._session.least)
        offset = size = 0
        parts: list[Content] = []
        for piece in self._reading:
            parts.append(BytesContent(bytes(piece)))
            size += len(piece)
            if size >= least:
                if problem := self._chunk(parts, offset):
                    return problem
                offset, size = offset + size, 0
        return self._chunk(parts, offset) if size else None

    def _chunk(self, parts: list[Content], offset: int) -> Problem | None:
        """Send `parts`, and forget them: no more than one chunk is in memory."""
        problem = self._session.patch(ContentBody(Concatenation(parts), on_bytes=self._count), offset)
        parts.clear()
        return problem

    def _count(self, count: int) -> None:
        if count:
            self._counted += count
            self._on_bytes(count)


class _Spent(httpx.TransportError):
    """The body was asked for again, which it cannot be."""


class _StreamBody(ContentBody):
    """A body of `length` bytes that can be sent once."""

    def __init__(self, pieces: Iterator[memoryview | bytes], length: int, on_bytes: ByteCount) -> None:
        super().__init__(BytesContent(b""), 0, length, on_bytes)
        self._pieces = pieces
        self._spent = False

    def __iter__(self) -> Iterator[bytes]:
        if self._spent:
            raise _Spent("the body cannot be sent again")
        self._spent = True
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
