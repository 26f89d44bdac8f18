# SPDX-License-Identifier: Apache-2.0
"""An upload session of a registry: the `Location` that it gave us, and what may be asked of it."""

from __future__ import annotations

import re
from contextlib import suppress
from urllib.parse import urljoin

import httpx

from ...errors import IntegrityError, NetworkError, OcibridgeError, StoreError
from .auth import Scope
from .backoff import is_transient
from .body import ContentBody
from .http import Call, Host
from .notes import UploadNote
from .problems import Answer

_TYPE = {"Content-Type": "application/octet-stream"}
_RANGE = re.compile(r"(?:bytes=)?0-(\d{1,19})")

Problem = Answer | httpx.HTTPError
"""Why a request did not do what it should: the registry refused, or the line broke."""


class UploadSession:
    """One upload to one repository, and one more after it where the first is lost.

    Args:
        host: The registry.
        repository: Repository on it.
        what: The operation, as a noun.
        note: Where the `Location` is noted for a later process.

    Attributes:
        least: Bytes that a chunk which is not the last must have at least.
    """

    def __init__(self, host: Host, repository: str, what: str, note: UploadNote) -> None:
        self._host = host
        self.what = what
        self.owner = f"{host.name}/{repository}"
        self._path = f"/v2/{repository}/blobs"
        self._base = f"{host.base}{self._path}/"
        self._scope: Scope = (f"repository:{repository}:pull,push",)
        self._note = note
        self._location: str | None = note.location
        self.least = 0

    @property
    def open(self) -> bool:
        """Whether there is a `Location`."""
        return self._location is not None

    def start(self) -> None:
        """Ask for a new session.

        Raises:
            StoreError: the registry gave none.
        """
        answer = self._host.request(self.call("POST", f"{self._path}/uploads/"), accept=(202,))
        self._follow(answer)
        minimum = answer.headers.get("oci-chunk-min-length", "")
        self.least = int(minimum) if minimum.isascii() and minimum.isdigit() and len(minimum) < 19 else 0

    def patch(self, body: ContentBody | bytes, offset: int | None) -> Problem | None:
        """Append bytes; None if the registry took them.

        Args:
            body: The bytes.
            offset: Where they belong, for a chunk; None for all bytes of an upload in one stream, as docker sends them.
        """
        length = body.length if isinstance(body, ContentBody) else len(body)
        headers = {} if offset is None else {"Content-Range": f"{offset}-{offset + length - 1}"}
        try:
            answer = self._host.once(self.call("PATCH", self._location or "", headers, body))
        except httpx.HTTPError as exc:
            return exc
        # 201 is what ECR says; its Range stands still, so our own count is the one that holds.
        if answer.status not in (201, 202, 204):
            return answer
        self._follow(answer)
        return None

    def close(self, digest: str, body: ContentBody | None = None) -> Problem | None:
        """Close the upload, with its last bytes; None if the registry now has the blob.

        Raises:
            IntegrityError: it has stored the blob under another digest.
        """
        try:
            answer = self._host.once(self.call("PUT", self._closing(digest), body=body))
        except httpx.HTTPError as exc:
            return None if self._arrived(digest) else exc
        if answer.status in (201, 204):
            announced = answer.headers.get("docker-content-digest")
            if announced and announced != digest:
                raise IntegrityError(
                    f"{self.owner}: {self.what} failed because the registry stored it under another digest",
                    hint="do not trust this registry until it is repaired",
                )
            return None
        return None if answer.status in (200, 202) and self._arrived(digest) else answer

    def kept(self) -> int | None:
        """How many bytes the registry has of an interrupted upload; None where it lost it."""
        try:
            answer = self._host.request(self.call("GET", self._location or ""), accept=(204,))
        except StoreError:
            return None
        self._follow(answer)
        match = _RANGE.fullmatch(answer.headers.get("range", "").strip())
        # An empty upload is "0-0", just as one of a single byte is.
        return None if match is None else (int(match[1]) + 1 if int(match[1]) else 0)

    def cancel(self) -> None:
        """Tell the registry to forget what it has, if there is a session."""
        location, self._location = self._location, None
        if location is not None:
            with suppress(httpx.HTTPError, OcibridgeError):
                self._host.once(self.call("DELETE", location))

    def leave(self, exc: BaseException | None) -> None:
        """Cancel the session, unless a later process may take it up.

        Args:
            exc: What ended the work, if something did.
        """
        hopeless = isinstance(exc, OcibridgeError) and not (
            isinstance(exc, NetworkError) or is_transient(getattr(exc, "status", None) or 0)
        )
        if hopeless or not self._note.kept:
            self.cancel()
        if hopeless:
            self._note.forget()

    def call(
        self,
        method: str,
        url: str,
        headers: dict[str, str] | None = None,
        body: ContentBody | bytes | None = None,
    ) -> Call:
        """A request of this upload."""
        return Call(
            method,
            url,
            self.what,
            self.owner,
            scope=self._scope,
            headers={**_TYPE, **(headers or {})},
            body=body,
        )

    def _follow(self, answer: Answer) -> None:
        location = answer.headers.get("location")
        try:
            if location:
                # Most are whole, and to join them takes as long as to send them.
                whole = location.startswith(self._base) and location[-1] != "?" and self._host.target(location)
                self._location = location if whole else urljoin(answer.where, location)
                self._note.write(self._location)
        except ValueError:
            self._location = None
        if self._location is None:
            raise StoreError(
                f"{self.owner}: {self.what} failed because the registry gave no upload address",
                hint="the registry does not follow the distribution specification; ask its administrator",
            )

    def _closing(self, digest: str) -> str:
        location = self._location or ""
        # Appended as text: the query is the registry's own and must come back byte for byte.
        return f"{location}{'&' if '?' in location else '?'}digest={digest.replace(':', '%3A')}"

    def _arrived(self, digest: str) -> bool:
        """Whether the registry has the blob although its answer was lost."""
        try:
            answer = self._host.once(self.call("HEAD", f"{self._path}/{digest}"))
        except (httpx.HTTPError, OcibridgeError):
            return False
        return answer.status == 200
