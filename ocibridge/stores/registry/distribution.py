# SPDX-License-Identifier: Apache-2.0
"""The endpoints of the distribution specification, each once."""

from __future__ import annotations

import re
import secrets
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
from oras.container import Container

from ...errors import IntegrityError, LimitError, NotFound, OcibridgeError, StoreError
from ...io.content import Content
from ...io.readers import ByteCount, Reader, ignore_bytes
from ...oci import (
    MEDIA_TYPE_DOCKER_INDEX,
    MEDIA_TYPE_DOCKER_MANIFEST,
    MEDIA_TYPE_INDEX,
    MEDIA_TYPE_MANIFEST,
    Descriptor,
    Index,
    parse_digest,
    parse_document,
    parse_json,
    sha256_digest,
)
from ..base import BlobStream
from .auth import repository_scope
from .download import BlobReader, open_blob
from .errors import is_web_page
from .http import Call
from .listings import ListingClient
from .notes import LEAST, UploadNote
from .upload import BlobUpload, StreamUpload

ACCEPTED_MANIFESTS = (
    MEDIA_TYPE_MANIFEST,
    MEDIA_TYPE_INDEX,
    MEDIA_TYPE_DOCKER_MANIFEST,
    MEDIA_TYPE_DOCKER_INDEX,
    "application/vnd.oci.artifact.manifest.v1+json",
)
MAX_REFERRERS = 100_000
_COUNT = re.compile(r"[0-9]{1,18}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_DELETE = "delete,pull,push"
_DELETED = (200, 202, 204)
_PUTS = 3
"""How often a manifest is pushed where the registry says that it got other bytes."""
_UPLOADS = "blobs/uploads/"
_ONE_SHOT = ("ghcr.io", "public.ecr.aws", "gcr.io", ".gcr.io", ".pkg.dev", ".amazonaws.com", ".amazonaws.com.cn")
_UNKNOWN = (403, 405, 501)
"""Statuses of a HEAD that do not say whether there is such a blob."""


class DistributionClient(ListingClient):
    """A client for the repositories of registries; the `container` of a method says which repository.

    Every method raises a `StoreError` where the registry refuses or cannot be reached.
    """

    # Manifests.

    def fetch_manifest(
        self, container: Container, version: str, accept: tuple[str, ...] = ACCEPTED_MANIFESTS
    ) -> tuple[bytes, str | None]:
        """Manifest bytes and announced media type, by tag or digest ("Pulling manifests").

        Raises:
            NotFound: there is none.
            IntegrityError: the bytes do not have the digest asked for, or announced by the registry.
            LimitError: it is larger than `Limits.manifest`.
        """
        what = f"pulling the manifest {version}"
        headers = {"Accept": ", ".join(accept)}
        call = self.call(container, "GET", f"manifests/{version}", what, headers=headers, identity=True)
        response = self.request(call)
        # A page where a manifest should be is not one that is damaged.
        if is_web_page(response) and not response.content.lstrip().startswith(b"{"):
            raise self.error(call, response)
        _compare(call, response, response.content)
        if version.startswith("sha256:") and version != sha256_digest(response.content):
            raise IntegrityError(
                f"{call.owner}: {what} failed because other bytes were sent",
                hint="do not trust this registry, or the proxy before it, until it is repaired",
            )
        return response.content, response.headers.get("content-type")

    def head_manifest(
        self, container: Container, version: str, accept: tuple[str, ...] = ACCEPTED_MANIFESTS
    ) -> Descriptor | None:
        """The descriptor of a manifest, by tag or digest; None where there is none ("Checking if content exists").

        A registry whose response to a HEAD does not tell digest, size and media type is asked for the manifest.
        """
        what = f"looking for the manifest {version}"
        call = self.call(container, "HEAD", f"manifests/{version}", what, headers={"Accept": ", ".join(accept)})
        response = self.request(call, accept=(200, 404, 405, 501))
        if response.status_code == 404:
            return None
        headers = response.headers
        digest = version if version.startswith("sha256:") else headers.get("docker-content-digest", "")
        size = headers.get("content-length", "")
        media_type = headers.get("content-type", "").partition(";")[0].strip()
        if response.status_code == 200 and media_type and _COUNT.fullmatch(size) and _DIGEST.fullmatch(digest):
            return Descriptor(media_type=media_type, digest=digest, size=int(size))
        try:
            data, announced = self.fetch_manifest(container, version, accept)
        except NotFound:
            return None
        return Descriptor.of(data, announced or MEDIA_TYPE_MANIFEST)

    def push_manifest(self, container: Container, data: bytes, media_type: str, version: str | None) -> httpx.Response:
        """Store manifest bytes under a tag, or by digest where `version` is None ("Pushing Manifests").

        A manifest with a `subject` is entered into the fallback tag of its subject where the registry does not say that
        it keeps referrers itself ("Pushing Manifests with Subject").

        Raises:
            IntegrityError: the registry stored other bytes.
            LimitError: there are more bytes than `Limits.manifest`.
        """
        call = self._put(container, data, media_type, version)
        for tries in range(1, _PUTS + 1):
            response = self.request(call, accept=(200, 201, 202))
            try:
                _compare(call, response, data)
                break
            except IntegrityError:
                # A tag must not be left with bytes that were altered on the way.
                if tries == _PUTS:
                    raise
        if "oci-subject" not in response.headers:
            subject, entry = _referrer(data, Descriptor.of(data, media_type), call.owner)
            if subject:
                self.add_fallback_referrer(container, subject, entry)
        return response

    def _put(self, container: Container, data: bytes, media_type: str, version: str | None) -> Call:
        target = version or sha256_digest(data)
        what = f"pushing the manifest {target}"
        call = self.call(container, "PUT", f"manifests/{target}", what, "pull,push", {"Content-Type": media_type}, data)
        if call.limit is not None and len(data) > call.limit:
            raise LimitError(
                f"{call.owner}: {what} failed because it is larger than {call.limit} bytes",
                hint="put the files into fewer layers",
            )
        return call

    def delete_manifest(self, container: Container, digest: str) -> None:
        """Remove a manifest and all tags that lead to it ("Deleting Manifests").

        Raises:
            NotFound: there is none.
            StoreError: the registry does not allow it.
        """
        self._delete(container, digest, f"deleting the manifest {digest}")

    def remove_tag(self, container: Container, tag: str) -> None:
        """Remove a tag and leave its manifest, which may have others ("Deleting tags").

        Where the registry deletes manifests only, the tag is first led to an empty index of its own, which is then
        deleted; nothing is touched before it is known that this is allowed.

        Raises:
            NotFound: there is none.
            StoreError: the registry does not allow it.
        """
        call = self.call(container, "DELETE", f"manifests/{tag}", f"deleting the tag {tag}", _DELETE)
        if self.head_manifest(container, tag) is None:
            raise NotFound(f"{call.owner} has no tag {tag}", hint="check the tag; it may be deleted already")
        response = self.request(call, accept=None)
        if response.status_code in _DELETED:
            return
        if response.status_code in (401, 403):
            raise self.error(call, response)
        empty = Index(manifests=[], annotations={"org.ocibridge.deleted": f"{tag} {secrets.token_hex(16)}"}).to_json()
        digest = sha256_digest(empty)
        for version in (None, tag):
            self.push_manifest(container, empty, MEDIA_TYPE_INDEX, version)
            self._delete(container, digest, call.what)

    def _delete(self, container: Container, version: str, what: str) -> None:
        try:
            self.request(self.call(container, "DELETE", f"manifests/{version}", what, _DELETE), accept=_DELETED)
        except StoreError as exc:
            if exc.status in (400, 405) or exc.code == "UNSUPPORTED":
                exc.hint = (
                    "the registry does not allow this; its administrator can (for distribution: storage.delete.enabled)"
                )
            raise

    # Blobs.

    def has_blob(self, container: Container, descriptor: Descriptor) -> bool:
        """Return whether the registry holds the blob, in its size where it says one ("Checking if content exists").

        False where nobody can tell: to upload a blob once more does no harm.
        """
        response = self._head_blob(container, descriptor.digest)
        if response is None:
            try:
                response = self._first_byte(container, descriptor.digest)
            except StoreError:
                return False
        return response.status_code == 200 and response.headers.get("content-length") in (None, str(descriptor.size))

    def head_blob(self, container: Container, digest: str) -> httpx.Response:
        """Send HEAD for a blob; return a response with status 200 or 404."""
        return self._head_blob(container, digest) or self._first_byte(container, digest)

    def _head_blob(self, container: Container, digest: str) -> httpx.Response | None:
        """The response to a HEAD; None where it does not tell."""
        call = self.call(container, "HEAD", f"blobs/{digest}", f"looking for the blob {digest}")
        if not call.host.can.head_blobs:
            return None
        response = self.request(call, accept=(200, 404, *_UNKNOWN))
        if response.status_code not in _UNKNOWN:
            return response
        call.host.can.head_blobs = response.status_code == 403
        return None

    def _first_byte(self, container: Container, digest: str) -> httpx.Response:
        """The response that a HEAD would have, from a GET of the first byte.

        Addresses of storage hosts that a registry redirects to may be signed for GET alone.
        """
        call = self.call(
            container, "GET", f"blobs/{digest}", f"looking for the blob {digest}", headers={"Range": "bytes=0-0"}
        )
        try:
            response = self.open(call)
            with closing(response):
                if response.status_code not in (200, 206, 404):
                    raise self.error(call, self.read(call, response))
        except httpx.HTTPError as exc:
            raise self.error(call, exc) from exc
        size = response.headers.get("content-length")
        if response.status_code == 206:
            size = response.headers.get("content-range", "").partition("/")[2]
        headers = {"Content-Length": size} if size else {}
        return httpx.Response(404 if response.status_code == 404 else 200, headers=headers, request=response.request)

    def open_blob(
        self, container: Container, descriptor: Descriptor, offset: int = 0, end: int | None = None
    ) -> Reader:
        """The bytes of a blob from an offset, unverified ("Pulling blobs"). See `BlobReader`."""
        call = self.call(container, "GET", f"blobs/{descriptor.digest}", f"pulling the blob {descriptor.digest}")
        if end is not None and end < descriptor.size:
            return BlobReader(self, call, descriptor.size, offset, end)
        return open_blob(self, call, descriptor.size, offset)

    def push_blob(
        self,
        container: Container,
        descriptor: Descriptor,
        content: Content,
        on_bytes: ByteCount = ignore_bytes,
        chunk: int | None = None,
        notes: Path | None = None,
    ) -> None:
        """Send a blob ("Pushing blobs"). See `BlobUpload`."""
        with self._note(container, notes, descriptor.digest, descriptor.size) as note:
            call = self.call(container, "POST", _UPLOADS, f"pushing the blob {descriptor.digest}", "pull,push")
            BlobUpload(self, call, descriptor, content, on_bytes, note, chunk).run()

    def stream_blob(
        self,
        container: Container,
        stream: BlobStream,
        key: str | None,
        on_bytes: ByteCount = ignore_bytes,
        notes: Path | None = None,
    ) -> bool:
        """Send a blob while it is hashed; False where the registry does not take it so. See `StreamUpload`."""
        if not self.takes_streams(container):
            return False
        with self._note(container, notes if key else None, key or "", stream.size or 0) as note:
            call = self.call(container, "POST", _UPLOADS, f"pushing {stream.label}", "pull,push")
            return StreamUpload(self, call, stream, on_bytes, note).run()

    def takes_streams(self, container: Container) -> bool:
        """Return whether the registry may take a blob by PATCH, as far as its name or this process knows."""
        host = self.host(container.registry)
        name = host.origin.host
        one_shot = any(name == each or (each[0] == "." and name.endswith(each)) for each in _ONE_SHOT)
        return host.can.streams and not one_shot

    def _note(self, container: Container, folder: Path | None, blob: str, size: int) -> UploadNote:
        place = f"{self.host(container.registry).origin}/{container.api_prefix}"
        return UploadNote(folder if size >= LEAST else None, place, blob)

    def mount_blob(self, container: Container, digest: str, source: str) -> bool:
        """Take a blob over from another repository of this host; False where the registry does not ("Mounting")."""
        scope = repository_scope(container.api_prefix, "pull,push") + repository_scope(source, "pull")
        path = f"{_UPLOADS}?mount={quote(digest, safe='')}&from={quote(source, safe='')}"
        call = self.call(container, "POST", path, f"mounting the blob {digest} from {source}", scope=scope)
        try:
            response = self.request(call, accept=(201, 202))
        except StoreError as exc:
            if exc.status is None:
                raise
            return False
        location = response.headers.get("location")
        if response.status_code == 202 and location:
            # The registry has started an upload instead; it is not needed.
            with suppress(httpx.HTTPError, OcibridgeError):
                target = str(call.host.resolve(location, call.what, response.url))
                self.once(self.call(container, "DELETE", target, call.what, scope=scope))
        return response.status_code == 201

    # Referrers.

    def referrers(self, container: Container, digest: str) -> list[Descriptor]:
        """Manifests whose subject is `digest`, from the API or the fallback tag ("Listing Referrers").

        A host without the API is asked only once.
        """
        host = self.host(container.registry)
        if not host.can.referrers:
            return self.fallback_referrers(container, digest)
        what = f"listing the referrers of {digest}"
        # GHCR redirects this one to a page with status 429 (seen in artifacthub#4785), so redirects are not followed.
        call = self.call(
            container, "GET", f"referrers/{digest}", what, headers={"Accept": MEDIA_TYPE_INDEX}, follow=False
        )
        found: list[Descriptor] | None = None
        try:
            for response in self.pages(call):
                if found is None and not response.headers.get("content-type", "").startswith(MEDIA_TYPE_INDEX):
                    return self.fallback_referrers(container, digest)
                index = parse_document(Index, response.content, f"{call.owner}: {what}", call.limit or 0)
                found = [*(found or ()), *index.manifests]
                if len(found) > MAX_REFERRERS:
                    raise LimitError(
                        f"{call.owner} lists more than {MAX_REFERRERS} referrers of {digest}",
                        hint="copy without referrers",
                    )
        except StoreError as exc:
            # What is forbidden is not absent, and pages that were read are not to be forgotten.
            if exc.status in (None, 401, 403) or found is not None:
                raise
            # An error code comes from one who knows the question, and this repository may lack the API alone.
            if exc.status in (404, 405) and exc.code in (None, "UNSUPPORTED"):
                host.can.referrers = False
            return self.fallback_referrers(container, digest)
        return found or []

    def fallback_referrers(self, container: Container, digest: str) -> list[Descriptor]:
        """Entries of the index under the fallback tag ("Referrers Tag Schema")."""
        try:
            data, _ = self.fetch_manifest(container, digest.replace(":", "-"), (MEDIA_TYPE_INDEX,))
        except NotFound:
            return []
        host = self.host(container.registry)
        owner = f"the referrers index of {host.name}/{container.api_prefix}@{digest}"
        return parse_document(Index, data, owner, host.options.limits.manifest).manifests

    def add_fallback_referrer(self, container: Container, subject: str, descriptor: Descriptor) -> None:
        """Enter a manifest into the fallback tag of its subject, for registries without the referrers API.

        Two clients that do this at the same moment can lose an entry; the specification knows no remedy.
        """
        known = self.fallback_referrers(container, subject)
        if any(entry.digest == descriptor.digest for entry in known):
            return

        def push(entries: list[Descriptor]) -> None:
            index = Index(manifests=[*entries, descriptor]).to_json()
            self.push_manifest(container, index, MEDIA_TYPE_INDEX, subject.replace(":", "-"))

        try:
            push(known)
        except StoreError as exc:
            if exc.status != 400:
                raise
            # Registries that look whether all entries are there do not take those that were deleted meanwhile.
            left = [entry for entry in known if self.head_manifest(container, entry.digest) is not None]
            if len(left) == len(known):
                raise
            push(left)


def _compare(call: Call, response: httpx.Response, data: bytes) -> None:
    announced = response.headers.get("docker-content-digest", "")
    if announced.startswith("sha256:") and announced != sha256_digest(data):
        raise IntegrityError(
            f"{call.owner}: {call.what} failed because the bytes do not have the digest that the registry announces",
            hint="do not trust this registry, or the proxy before it, until it is repaired",
        )


def _referrer(data: bytes, descriptor: Descriptor, owner: str) -> tuple[str | None, Descriptor]:
    """The subject of a manifest, and the manifest's entry in the list of its referrers."""
    document: Any = parse_json(data, f"the manifest for {owner}", len(data))
    subject = document.get("subject") if isinstance(document, dict) else None
    if not isinstance(subject, dict):
        return None, descriptor
    config = document.get("config")
    kind = document.get("artifactType") or (config.get("mediaType") if isinstance(config, dict) else None)
    entry = descriptor.model_copy(update={"artifact_type": kind, "annotations": document.get("annotations") or None})
    return parse_digest(str(subject.get("digest")), f"the subject of the manifest for {owner}"), entry
