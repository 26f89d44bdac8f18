# SPDX-License-Identifier: Apache-2.0
"""Sending a blob (distribution-spec, "Pushing blobs").

One PUT with a known length is the form that every registry takes, and the fastest. Chunks are for what stands between:
a proxy that refuses long requests (413), or a line or server that breaks them twice.
"""

from __future__ import annotations

import re
from contextlib import suppress
from urllib.parse import quote, urljoin

import httpx

from ...content import Content
from ...errors import IntegrityError, OcibridgeError, StoreError
from ...model import ByteCount
from ...oci import Descriptor
from ...settings import KiB, MiB
from .auth import Scope
from .body import ContentBody
from .http import COMMIT_TIMEOUT, READ_TIMEOUT, Attempts, Call, Host
from .problems import Answer

CHUNK = 32 * MiB
"""First choice for the bytes of one PATCH; a quarter of it after each 413."""
MIN_CHUNK = 256 * KiB
_TYPE = {"Content-Type": "application/octet-stream"}
_RANGE = re.compile(r"(?:bytes=)?0-(\d{1,19})")


class BlobUpload:
    """One blob on its way to one repository.

    Args:
        host: The registry.
        repository: Repository on it.
        descriptor: Digest and size that the registry is to hold in the end.
        content: The bytes.
        on_bytes: See `ContentBody`.
        chunk: Bytes per request, to send chunks from the start; None sends one PUT.
    """

    def __init__(
        self,
        host: Host,
        repository: str,
        descriptor: Descriptor,
        content: Content,
        on_bytes: ByteCount,
        chunk: int | None = None,
    ) -> None:
        self._host = host
        self._descriptor = descriptor
        self._content = content
        self._on_bytes = on_bytes
        self._chunk = chunk
        self._owner = f"{host.name}/{repository}"
        self._path = f"/v2/{repository}/blobs"
        self._what = f"pushing the blob {descriptor.digest}"
        self._scope: Scope = (f"repository:{repository}:pull,push",)
        self._location: str | None = None
        self._least = 0
        self._counted = 0
        self._attempts = Attempts(host, self._call("PUT", ""))

    def run(self) -> None:
        """Send the blob; the registry holds it, verified, when this returns.

        Raises:
            IntegrityError: the content does not have the digest or size of the descriptor.
            StoreError: the registry refused it, or could not be reached.
        """
        if self._content.size != self._descriptor.size:
            raise IntegrityError(
                f"{self._owner}: {self._what} failed because the source has {self._content.size} bytes"
                f" where {self._descriptor.size} were promised",
                hint="run the command again once nothing writes to the source",
            )
        try:
            while not self._try():
                self._cancel()
        except BaseException:
            self._rewind(0)
            self._cancel()
            raise

    def _try(self) -> bool:
        """Send everything once; False where it has to be sent again."""
        self._rewind(0)
        self._start()
        return self._one_put() if self._chunk is None else self._chunks(max(self._chunk, self._least))

    def _start(self) -> None:
        answer = self._host.request(self._call("POST", f"{self._path}/uploads/"), accept=(202,))
        self._follow(answer)
        minimum = answer.headers.get("oci-chunk-min-length", "")
        self._least = int(minimum) if minimum.isascii() and minimum.isdigit() and len(minimum) < 19 else 0

    def _follow(self, answer: Answer) -> None:
        location = answer.headers.get("location")
        if location:
            self._location = urljoin(str(answer.url), location)
        elif self._location is None:
            raise StoreError(
                f"{self._owner}: {self._what} failed because the registry gave no upload address",
                hint="the registry does not follow the distribution specification; ask its administrator",
            )

    def _one_put(self) -> bool:
        body = ContentBody(self._content, on_bytes=self._count)
        problem = self._put(body)
        if problem is None:
            return True
        if isinstance(problem, Answer) and problem.status == 413 and self._descriptor.size > MIN_CHUNK:
            self._chunk = min(CHUNK, max(MIN_CHUNK, self._descriptor.size // 2))
            return False
        self._attempts.failed(problem)
        if self._attempts.failures >= 2 and self._descriptor.size > CHUNK:
            self._chunk = CHUNK
        return False

    def _chunks(self, chunk: int) -> bool:
        offset = 0
        while offset < self._descriptor.size:
            length = min(chunk, self._descriptor.size - offset)
            problem = self._patch(offset, length)
            if problem is None:
                offset += length
                continue
            status = problem.status if isinstance(problem, Answer) else None
            if status == 413 and length > max(MIN_CHUNK, self._least):
                self._chunk = max(MIN_CHUNK, chunk // 4)
                return False
            self._attempts.failed(problem, again=status in (404, 416))
            kept = self._status()
            if kept is None or not offset <= kept <= offset + length:
                return False
            offset = kept
            self._rewind(offset)
        problem = self._put(None)
        if problem is not None:
            self._attempts.failed(problem)
        return problem is None

    def _patch(self, offset: int, length: int) -> Answer | httpx.HTTPError | None:
        body = ContentBody(self._content, offset, length, self._count)
        headers = {"Content-Range": f"{offset}-{offset + length - 1}"}
        try:
            answer = self._host.once(self._call("PATCH", self._location or "", headers, body))
        except httpx.HTTPError as exc:
            return exc
        # 201 is what ECR says; its Range stands still, so our own count is the one that holds.
        if answer.status not in (201, 202, 204):
            return answer
        self._follow(answer)
        self._attempts.progress()
        return None

    def _put(self, body: ContentBody | None) -> Answer | httpx.HTTPError | None:
        """Close the upload; None if the registry now has the blob."""
        try:
            answer = self._host.once(self._call("PUT", self._closing(), body=body))
        except httpx.HTTPError as exc:
            return None if self._arrived() else exc
        if answer.status in (201, 204):
            announced = answer.headers.get("docker-content-digest")
            if announced and announced != self._descriptor.digest:
                raise IntegrityError(
                    f"{self._owner}: {self._what} failed because the registry stored it under another digest",
                    hint="do not trust this registry until it is repaired",
                )
            return None
        return None if answer.status in (200, 202) and self._arrived() else answer

    def _count(self, count: int) -> None:
        self._counted += count
        self._on_bytes(count)

    def _rewind(self, offset: int) -> None:
        """Take back what was reported beyond `offset`."""
        if self._counted != offset:
            self._count(offset - self._counted)

    def _closing(self) -> str:
        location = self._location or ""
        # Appended as text: the query is the registry's own and must come back byte for byte.
        return f"{location}{'&' if '?' in location else '?'}digest={quote(self._descriptor.digest, safe='')}"

    def _status(self) -> int | None:
        """How many bytes the registry has of an interrupted upload; None where it lost it."""
        try:
            answer = self._host.request(self._call("GET", self._location or ""), accept=(204,))
        except StoreError:
            return None
        self._follow(answer)
        match = _RANGE.fullmatch(answer.headers.get("range", "").strip())
        # An empty upload is "0-0", just as one of a single byte is.
        return None if match is None else (int(match[1]) + 1 if int(match[1]) else 0)

    def _arrived(self) -> bool:
        """Whether the registry has the blob although its answer was lost."""
        try:
            answer = self._host.once(self._call("HEAD", f"{self._path}/{self._descriptor.digest}"))
        except (httpx.HTTPError, OcibridgeError):
            return False
        return answer.status == 200

    def _cancel(self) -> None:
        location, self._location = self._location, None
        if location is not None:
            with suppress(httpx.HTTPError, OcibridgeError):
                self._host.once(self._call("DELETE", location))

    def _call(
        self, method: str, url: str, headers: dict[str, str] | None = None, body: ContentBody | None = None
    ) -> Call:
        return Call(
            method,
            url,
            self._what,
            self._owner,
            scope=self._scope,
            headers={**_TYPE, **(headers or {})},
            body=body,
            read_timeout=COMMIT_TIMEOUT if method == "PUT" else READ_TIMEOUT,
        )
