# SPDX-License-Identifier: Apache-2.0
"""An upload session of a registry: the `Location` that it gave us, and what may be asked of it."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from urllib.parse import urljoin

import httpx

from ...errors import IntegrityError, NetworkError, OcibridgeError, StoreError
from .body import ContentBody
from .http import Call, RegistryHTTP
from .notes import UploadNote
from .retry import Problem, is_transient

_TYPE = {"Content-Type": "application/octet-stream"}
_RANGE = re.compile(r"(?:bytes=)?0-(\d{1,19})")


class UploadSession:
    """One upload to one repository, and a second one if the first is lost.

    Args:
        client: Sends the requests.
        call: The POST that starts an upload.
        note: Keeps the `Location` for a later process.

    Attributes:
        call: The same.
        least: Bytes that a chunk which is not the last must have at least.
    """

    def __init__(self, client: RegistryHTTP, call: Call, note: UploadNote) -> None:
        self._client = client
        self.call = call
        self._note = note
        self._location: str | None = note.location
        self.least = 0

    @property
    def open(self) -> bool:
        """True if there is a `Location`."""
        return self._location is not None

    def start(self) -> None:
        """Ask for a new session.

        Raises:
            StoreError: the registry gave none.
        """
        response = self._client.request(replace(self.call, headers=_TYPE), accept=(202,))
        self._follow(response)
        minimum = response.headers.get("oci-chunk-min-length", "")
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
            response = self._client.once(self._request("PATCH", self._location or "", headers, body))
        except httpx.HTTPError as exc:
            return exc
        # 201 is what ECR says; its Range stands still, so our own count is the one that holds.
        if response.status_code not in (201, 202, 204):
            return response
        self._follow(response)
        return None

    def close(self, digest: str, body: ContentBody | None = None) -> Problem | None:
        """Close the upload, with its last bytes; None if the registry now has the blob.

        Raises:
            IntegrityError: it has stored the blob under another digest.
        """
        try:
            response = self._client.once(self._request("PUT", self._closing(digest), body=body))
        except httpx.HTTPError as exc:
            return None if self._arrived(digest) else exc
        if response.status_code in (201, 204):
            announced = response.headers.get("docker-content-digest")
            if announced and announced != digest:
                raise IntegrityError(
                    f"{self.call.owner}: {self.call.what} failed because the registry stored it under another digest",
                    hint="do not trust this registry until it is repaired",
                )
            return None
        return None if response.status_code in (200, 202) and self._arrived(digest) else response

    def kept(self) -> int | None:
        """Return the number of bytes that the registry has of an interrupted upload; None if it has lost it."""
        try:
            response = self._client.request(self._request("GET", self._location or ""), accept=(204,))
        except StoreError:
            return None
        self._follow(response)
        match = _RANGE.fullmatch(response.headers.get("range", "").strip())
        # An empty upload is "0-0", just as one of a single byte is.
        return None if match is None else (int(match[1]) + 1 if int(match[1]) else 0)

    def cancel(self) -> None:
        """Tell the registry to forget what it has, if there is a session."""
        location, self._location = self._location, None
        if location is not None:
            with suppress(httpx.HTTPError, OcibridgeError):
                self._client.once(self._request("DELETE", location))

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

    def _request(
        self,
        method: str,
        url: str,
        headers: dict[str, str] | None = None,
        body: ContentBody | bytes | None = None,
    ) -> Call:
        return replace(self.call, method=method, url=url, headers={**_TYPE, **(headers or {})}, body=body)

    def _follow(self, response: httpx.Response) -> None:
        location = response.headers.get("location")
        if location:
            with suppress(ValueError):
                # As text: the query is the registry's own and must come back byte for byte.
                self._location = urljoin(str(response.url), location)
                self._note.write(self._location)
                return
        if self._location is None or location:
            raise StoreError(
                f"{self.call.owner}: {self.call.what} failed because the registry gave no upload address",
                hint="the registry does not follow the distribution specification; ask its administrator",
            )

    def _closing(self, digest: str) -> str:
        location = self._location or ""
        return f"{location}{'&' if '?' in location else '?'}digest={digest.replace(':', '%3A')}"

    def _arrived(self, digest: str) -> bool:
        """Return whether the registry has the blob although its response was lost."""
        path = self.call.url.removesuffix("uploads/")
        try:
            response = self._client.once(self._request("HEAD", f"{path}{digest}"))
        except (httpx.HTTPError, OcibridgeError):
            return False
        return response.status_code == 200
