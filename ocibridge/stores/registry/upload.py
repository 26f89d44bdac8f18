# SPDX-License-Identifier: Apache-2.0
"""Sending a blob (distribution-spec, "Pushing blobs").

One PUT with a known length is the form that every registry takes, and the fastest. Chunks are for what stands between:
a proxy that refuses long requests (413), or a line or server that breaks them twice.
"""

from __future__ import annotations

from ...content import Content
from ...errors import IntegrityError, NetworkError, StoreError
from ...model import ByteCount
from ...oci import Descriptor
from ...settings import KiB, MiB
from .body import ContentBody
from .http import Attempts, Host
from .notes import UploadNote
from .problems import Answer
from .session import Problem, UploadSession

CHUNK = 32 * MiB
"""First choice for the bytes of one PATCH; a quarter of it after each 413."""
MIN_CHUNK = 256 * KiB


class BlobUpload:
    """One blob on its way to one repository.

    Args:
        host: The registry.
        repository: Repository on it.
        descriptor: Digest and size that the registry is to hold in the end.
        content: The bytes.
        on_bytes: See `ContentBody`.
        note: What an earlier process may have left of this upload, and what this one may leave.
        chunk: Bytes per request, to send chunks from the start; None sends one PUT.
    """

    def __init__(
        self,
        host: Host,
        repository: str,
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
        self._session = UploadSession(host, repository, f"pushing the blob {descriptor.digest}", note)
        self._attempts = Attempts(host, self._session.call("PUT", ""))

    def run(self) -> None:
        """Send the blob; the registry holds it, verified, when this returns.

        Raises:
            IntegrityError: the content does not have the digest or size of the descriptor.
            StoreError: the registry refused it, or could not be reached.
        """
        if self._content.size != self._descriptor.size:
            raise IntegrityError(
                f"{self._session.owner}: {self._session.what} failed because the source has {self._content.size} bytes"
                f" where {self._descriptor.size} were promised",
                hint="run the command again once nothing writes to the source",
            )
        try:
            while not (self._go_on() or self._try()):
                self._session.leave(None)
        except BaseException as exc:
            # In this order: taking bytes back can raise again, where all work is to end.
            self._session.leave(exc)
            self._rewind(0)
            raise
        self._note.forget()

    def _go_on(self) -> bool:
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
                # What the registry had is not the start of this blob, or it will not go on; a new upload may do.
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
                self._attempts.progress()
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


def _too_large(problem: Problem) -> bool:
    return isinstance(problem, Answer) and problem.status == 413


def _lost(problem: Problem) -> bool:
    """Whether the session is what is wrong, so that another one may do."""
    return isinstance(problem, Answer) and problem.status in (404, 416)
