# SPDX-License-Identifier: Apache-2.0
"""Sending a blob (distribution-spec, "Pushing blobs").

One PUT with a known length is the form that every registry takes, and the fastest. Chunks are for what stands between:
a proxy that refuses long requests (413), or a connection or server that breaks them twice.

A blob that is hashed while it is sent has its digest last, so all bytes go in a PATCH before it: one without
Content-Range, as docker and podman send them, or chunks where the size is not known. Whatever goes wrong, the blob is
then pushed as one whose digest is known.
"""

from __future__ import annotations

from itertools import chain

import httpx

from ...errors import IntegrityError, NetworkError, StoreError
from ...io.content import BytesContent, Concatenation, Content
from ...io.readers import ByteCount
from ...oci import Descriptor
from ...settings import KiB, MiB
from ..base import BlobStream
from .body import ContentBody, OnceBody
from .http import Call, RegistryHTTP
from .notes import UploadNote
from .retry import Problem
from .session import UploadSession

CHUNK = 32 * MiB
"""First choice for the bytes of one PATCH; a quarter of it after each 413."""
MIN_CHUNK = 256 * KiB
STREAM_CHUNK = 4 * MiB
"""Bytes of one PATCH, or little more, where the size of the blob is not known; they wait in memory."""


class BlobUpload:
    """One blob on its way to one repository.

    Args:
        client: Who sends.
        call: The POST that starts the upload.
        descriptor: Digest and size that the registry is to hold in the end.
        content: The bytes.
        on_bytes: See `ContentBody`.
        note: What an earlier process may have left of this upload, and what this one may leave.
        chunk: Bytes per request, to send chunks from the start; None sends one PUT.
    """

    def __init__(
        self,
        client: RegistryHTTP,
        call: Call,
        descriptor: Descriptor,
        content: Content,
        on_bytes: ByteCount,
        note: UploadNote,
        chunk: int | None = None,
    ) -> None:
        self._descriptor = descriptor
        self._content = content
        self._on_bytes = on_bytes
        self._note = note
        self._chunk = chunk
        self._counted = 0
        self._session = UploadSession(client, call, note)
        self._attempts = client.attempts(call)

    def run(self) -> None:
        """Send the blob; the registry holds it, verified, when this returns.

        Raises:
            IntegrityError: the content does not have the digest or size of the descriptor.
            StoreError: the registry refused it, or could not be reached.
        """
        if self._content.size != self._descriptor.size:
            call = self._session.call
            raise IntegrityError(
                f"{call.owner}: {call.what} failed because the source has {self._content.size} bytes"
                f" where {self._descriptor.size} were promised",
                hint="run the command again once nothing writes to the source",
            )
        try:
            while not (self._resume() or self._try()):
                self._session.leave(None)
        except BaseException as exc:
            # In this order: taking bytes back can raise again, where all work is to end.
            self._session.leave(exc)
            self._rewind(0)
            raise
        self._note.forget()

    def _resume(self) -> bool:
        """Send what is missing of an interrupted upload; False where it has to be sent from the start."""
        if not self._session.open:
            return False
        kept = self._session.kept()
        if kept and kept <= self._descriptor.size:
            self._rewind(kept)
            try:
                if self._chunks(self._chunk or self._descriptor.size, kept):
                    return True
            except NetworkError:
                raise
            except (IntegrityError, StoreError):
                # The registry has other bytes, or refuses to resume; a new upload may succeed.
                pass
        self._session.cancel()
        return False

    def _try(self) -> bool:
        """Send everything once; False where it has to be sent again."""
        self._rewind(0)
        self._session.start()
        return self._one_put() if self._chunk is None else self._chunks(self._chunk, 0)

    def _one_put(self) -> bool:
        problem = self._session.close(self._descriptor.digest, ContentBody(self._content, on_bytes=self._count))
        if problem is None:
            return True
        if _too_large(problem) and self._descriptor.size > MIN_CHUNK:
            self._chunk = min(CHUNK, max(MIN_CHUNK, self._descriptor.size // 2))
            self._session.cancel()
            return False
        self._attempts.failed(problem, again=_lost(problem))
        if self._attempts.failures >= 2 and self._descriptor.size > CHUNK:
            self._chunk = CHUNK
        return False

    def _chunks(self, chunk: int, offset: int) -> bool:
        chunk = max(chunk, self._session.least)
        while offset < self._descriptor.size:
            length = min(chunk, self._descriptor.size - offset)
            problem = self._session.patch(ContentBody(self._content, offset, length, self._count), offset)
            if problem is None:
                offset += length
                self._attempts.reached(offset)
                continue
            if _too_large(problem) and length > max(MIN_CHUNK, self._session.least):
                self._chunk = max(MIN_CHUNK, min(CHUNK, chunk // 4))
                self._session.cancel()
                return False
            self._attempts.failed(problem, again=_lost(problem))
            kept = self._session.kept()
            if kept is None or not offset <= kept <= offset + length:
                self._session.cancel()
                return False
            offset = kept
            self._rewind(offset)
        problem = self._session.close(self._descriptor.digest)
        if problem is not None:
            self._attempts.failed(problem, again=_lost(problem))
        return problem is None

    def _count(self, count: int) -> None:
        self._counted += count
        self._on_bytes(count)

    def _rewind(self, offset: int) -> None:
        """Take back what was reported beyond `offset`."""
        if self._counted != offset:
            self._count(offset - self._counted)


class StreamUpload:
    """One blob of unknown digest on its way to one repository.

    Args:
        client: Who sends.
        call: The POST that starts the upload.
        stream: The bytes.
        on_bytes: Called with the number of bytes handed to the connection; negative numbers take bytes back.
        note: What an earlier process may have left of this upload, and what this one may leave.
    """

    def __init__(
        self, client: RegistryHTTP, call: Call, stream: BlobStream, on_bytes: ByteCount, note: UploadNote
    ) -> None:
        self._can = call.host.can
        self._stream = stream
        self._on_bytes = on_bytes
        self._note = note
        self._counted = 0
        self._session = UploadSession(client, call, note)

    def run(self) -> bool:
        """Send the blob; False where the registry did not take it, though another form of upload may do.

        Where the connection broke, the note stays for that other form.

        Raises:
            IntegrityError: a file of the layer is not what its format promises, or the registry does wrong.
            SourceError: it cannot be read.
            StoreError: the registry starts no upload.
        """
        try:
            problem = self._send()
            if isinstance(problem, httpx.HTTPError) and self._note.kept:
                # What arrived of it may count for the upload that knows the digest.
                self._note.rename(self._stream.finish().digest)
        except BaseException as exc:
            self._session.leave(exc)
            self._count(-self._counted)
            raise
        if problem is None:
            self._note.forget()
            return True
        self._can.streams = False
        if isinstance(problem, httpx.Response):
            self._note.forget()
        self._session.leave(None)
        self._count(-self._counted)
        return False

    def _send(self) -> Problem | None:
        size = self._stream.size
        offset = (self._session.kept() or 0) if self._session.open else 0
        if not 0 < offset <= (size or 0):
            offset = 0
            self._session.cancel()
            self._session.start()
        problem = self._patches() if size is None else self._patch(size, offset)
        return problem or self._session.close(self._stream.finish().digest)

    def _patch(self, size: int, offset: int) -> Problem | None:
        """Send what follows `offset`; what the registry has of an earlier try is only hashed."""
        rest, left = memoryview(b""), offset
        while left:
            piece = memoryview(next(self._stream))
            rest, skipped = piece[left:], min(left, len(piece))
            left -= skipped
            self._count(skipped)
        if offset == size:
            return None
        body = OnceBody(chain((rest,), self._stream), size - offset, self._count)
        return self._session.patch(body, offset or None)

    def _patches(self) -> Problem | None:
        """Send what is compressed, chunk by chunk."""
        least = max(STREAM_CHUNK, self._session.least)
        offset = size = 0
        parts: list[Content] = []
        for piece in self._stream:
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


def _too_large(problem: Problem) -> bool:
    return isinstance(problem, httpx.Response) and problem.status_code == 413


def _lost(problem: Problem) -> bool:
    """Return whether the session is what is wrong, so that another one may do."""
    return isinstance(problem, httpx.Response) and problem.status_code in (404, 416)
