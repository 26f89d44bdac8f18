# SPDX-License-Identifier: Apache-2.0
"""One repository, as the distribution specification speaks to it. Knows neither stores nor the ORAS client."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote
from weakref import WeakSet

import httpx

from ...content import Content, Reader
from ...errors import IntegrityError, LimitError, NetworkError, NotFound, OcibridgeError, StoreError
from ...model import ByteCount, ignore_bytes
from ...oci import (
    MEDIA_TYPE_DOCKER_INDEX,
    MEDIA_TYPE_DOCKER_MANIFEST,
    MEDIA_TYPE_INDEX,
    MEDIA_TYPE_MANIFEST,
    Descriptor,
    Index,
    parse_document,
    parse_json,
    sha256_digest,
)
from .auth import Scope, repository_scope
from .http import Call, Host
from .messages import Site
from .notes import LEAST, UploadNote
from .problems import Answer
from .ranges import open_blob
from .upload import BlobUpload

ACCEPTED_MANIFESTS = (
    MEDIA_TYPE_MANIFEST,
    MEDIA_TYPE_INDEX,
    MEDIA_TYPE_DOCKER_MANIFEST,
    MEDIA_TYPE_DOCKER_INDEX,
    "application/vnd.oci.artifact.manifest.v1+json",
)
MAX_PAGES = 10_000
MAX_REFERRERS = 100_000
_COUNT = re.compile(r"[0-9]{1,18}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_DELETE = "delete,pull,push"
_DELETED = (200, 202, 204)
_without_api: WeakSet[Host] = WeakSet()
_NEXT = re.compile(r'<([^<>]*)>\s*;[^,<]*\brel="?next"?', re.IGNORECASE)


class Repository:
    """The endpoints of one repository.

    Args:
        host: The registry.
        name: Repository name.

    Every method raises a `StoreError` where the registry refuses or cannot be reached.
    """

    def __init__(self, host: Host, name: str) -> None:
        self.host = host
        self.name = name
        self.owner = f"{host.name}/{name}"

    # Manifests.

    def get_manifest(self, version: str, accept: tuple[str, ...] = ACCEPTED_MANIFESTS) -> tuple[bytes, str | None]:
        """Manifest bytes and announced media type, by tag or digest ("Pulling manifests").

        Raises:
            NotFound: there is none.
            IntegrityError: the bytes do not have the digest asked for, or announced by the registry.
            LimitError: it is larger than `Limits.manifest`.
        """
        what = f"pulling the manifest {version}"
        call = self.call("GET", f"manifests/{version}", what, headers={"Accept": ", ".join(accept)})
        answer = self.host.request(call)
        encoding = answer.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            raise StoreError(
                f"{self.owner}: {what} failed because the answer is encoded, which changes its bytes",
                hint="switch compression off in the proxy before the registry",
            )
        self._compare(answer, answer.body, what)
        if version.startswith("sha256:") and version != sha256_digest(answer.body):
            raise IntegrityError(
                f"{self.owner}: {what} failed because other bytes were sent",
                hint="do not trust this registry, or the proxy before it, until it is repaired",
            )
        return answer.body, answer.headers.get("content-type")

    def head_manifest(self, version: str, accept: tuple[str, ...] = ACCEPTED_MANIFESTS) -> Descriptor | None:
        """The descriptor of a manifest, by tag or digest; None where there is none ("Checking if content exists").

        A registry whose answer to a HEAD does not tell digest, size and media type is asked for the manifest.
        """
        what = f"looking for the manifest {version}"
        call = self.call("HEAD", f"manifests/{version}", what, headers={"Accept": ", ".join(accept)})
        answer = self.host.request(call, accept=(200, 404, 405))
        if answer.status == 404:
            return None
        digest = version if version.startswith("sha256:") else answer.headers.get("docker-content-digest", "")
        size = answer.headers.get("content-length", "")
        media_type = answer.headers.get("content-type", "").partition(";")[0].strip()
        if answer.status == 200 and media_type and _COUNT.fullmatch(size) and _DIGEST.fullmatch(digest):
            return Descriptor(media_type=media_type, digest=digest, size=int(size))
        try:
            data, announced = self.get_manifest(version, accept)
        except NotFound:
            return None
        return Descriptor.of(data, announced or MEDIA_TYPE_MANIFEST)

    def put_manifest(self, data: bytes, media_type: str, version: str | None) -> Answer:
        """Store manifest bytes under a tag, or by digest where `version` is None ("Pushing Manifests").

        Raises:
            IntegrityError: the registry stored other bytes.
            LimitError: there are more bytes than `Limits.manifest`.
        """
        target = version or sha256_digest(data)
        what = f"pushing the manifest {target}"
        limit = self.host.options.limits.manifest
        if len(data) > limit:
            raise LimitError(
                f"{self.owner}: {what} failed because it is larger than {limit} bytes",
                hint="put the files into fewer layers",
            )
        call = self.call("PUT", f"manifests/{target}", what, "pull,push", {"Content-Type": media_type}, data)
        answer = self.host.request(call, accept=(200, 201, 202))
        self._compare(answer, data, what)
        return answer

    def delete_manifest(self, digest: str) -> None:
        """Remove a manifest and all tags that lead to it ("Deleting Manifests").

        Raises:
            NotFound: there is none.
            StoreError: the registry does not allow it.
        """
        self._delete(digest, f"deleting the manifest {digest}")

    def delete_tag(self, tag: str) -> None:
        """Remove a tag and leave its manifest, which may have others ("Deleting tags").

        Where the registry deletes manifests only, the tag is first led to an empty index of its own, which is then
        deleted; nothing is touched before it is known that this is allowed.

        Raises:
            NotFound: there is none.
            StoreError: the registry does not allow it.
        """
        what = f"deleting the tag {tag}"
        if self.head_manifest(tag) is None:
            raise NotFound(f"{self.owner} has no tag {tag}", hint="check the tag; it may be deleted already")
        answer = self.host.request(self.call("DELETE", f"manifests/{tag}", what, _DELETE), accept=None)
        if answer.status in _DELETED:
            return
        if answer.status in (401, 403):
            raise self.host.error(self.call("DELETE", f"manifests/{tag}", what, _DELETE), answer)
        empty = Index(manifests=[], annotations={"org.ocibridge.deleted": f"{tag} {secrets.token_hex(16)}"}).to_json()
        digest = sha256_digest(empty)
        self.put_manifest(empty, MEDIA_TYPE_INDEX, None)
        self._delete(digest, what)
        self.put_manifest(empty, MEDIA_TYPE_INDEX, tag)
        self._delete(digest, what)

    def _delete(self, version: str, what: str) -> None:
        try:
            self.host.request(self.call("DELETE", f"manifests/{version}", what, _DELETE), accept=_DELETED)
        except StoreError as exc:
            if exc.status in (400, 405) or exc.code == "UNSUPPORTED":
                exc.hint = (
                    "the registry does not allow this; its administrator can (for distribution: storage.delete.enabled)"
                )
            raise

    def _compare(self, answer: Answer, data: bytes, what: str) -> None:
        announced = answer.headers.get("docker-content-digest", "")
        if announced.startswith("sha256:") and announced != sha256_digest(data):
            raise IntegrityError(
                f"{self.owner}: {what} failed because the bytes do not have the digest that the registry announces",
                hint="do not trust this registry, or the proxy before it, until it is repaired",
            )

    # Blobs.

    def has_blob(self, descriptor: Descriptor) -> bool:
        """Whether the registry holds the blob, in its size where it says one ("Checking if content exists")."""
        call = self.call("HEAD", f"blobs/{descriptor.digest}", f"looking for the blob {descriptor.digest}")
        answer = self.host.request(call, accept=(200, 403, 404))
        if answer.status == 403:
            if Site.of(answer.url) == self.host.site:
                raise self.host.error(call, answer)
            # The address of a storage host that the registry redirects to may be signed for GET alone.
            return self._gives_blob(descriptor)
        if answer.status != 200:
            return False
        length = answer.headers.get("content-length")
        return length is None or length == str(descriptor.size)

    def _gives_blob(self, descriptor: Descriptor) -> bool:
        """Whether the first byte of a blob can be had, and its size is right."""
        what = f"looking for the blob {descriptor.digest}"
        call = self.call("GET", f"blobs/{descriptor.digest}", what, headers={"Range": "bytes=0-0"})
        try:
            reply = self.host.open(call)
        except httpx.HTTPError:
            return False
        reply.close()
        _, _, size = reply.headers.get("content-range", "").partition("/")
        if reply.status == 200:
            size = reply.headers.get("content-length", "")
        return reply.status in (200, 206) and size == str(descriptor.size)

    def open_blob(self, descriptor: Descriptor, offset: int = 0) -> Reader:
        """The bytes of a blob from an offset, unverified. See `BlobReader`."""
        call = self.call("GET", f"blobs/{descriptor.digest}", f"pulling the blob {descriptor.digest}")
        return open_blob(self.host, call, descriptor.size, offset)

    def push_blob(
        self,
        descriptor: Descriptor,
        content: Content,
        on_bytes: ByteCount = ignore_bytes,
        chunk: int | None = None,
        notes: Path | None = None,
    ) -> None:
        """Send a blob. See `BlobUpload`."""
        with self.note(notes, descriptor.digest, descriptor.size) as note:
            BlobUpload(self.host, self.name, descriptor, content, on_bytes, note, chunk).run()

    def note(self, folder: Path | None, blob: str, size: int) -> UploadNote:
        """The note on the upload of a blob; none for a small one."""
        return UploadNote(folder if size >= LEAST else None, f"{self.host.origin}/{self.name}", blob)

    def is_new(self) -> bool:
        """Whether the repository has no tag ("Listing Tags"); False where nobody can tell."""
        call = self.call("GET", "tags/list?n=1", "listing the tags")
        try:
            answer = self.host.request(call, accept=(200, 404))
            if answer.status == 404:
                return True
            document: Any = parse_json(answer.body, f"the list of tags of {self.owner}", call.limit)
        except NetworkError:
            raise
        except OcibridgeError:
            return False
        return isinstance(document, dict) and document.get("tags", "unknown") in (None, [])

    def mount_blob(self, digest: str, source: str) -> bool:
        """Take a blob over from another repository of this host; False where the registry does not ("Mounting")."""
        scope = repository_scope(self.name, "pull,push") + repository_scope(source, "pull")
        path = f"/v2/{self.name}/blobs/uploads/?mount={quote(digest, safe='')}&from={quote(source, safe='')}"
        call = Call("POST", path, f"mounting the blob {digest} from {source}", self.owner, scope=scope)
        try:
            answer = self.host.request(call, accept=(201, 202))
        except StoreError as exc:
            if exc.status is None:
                raise
            return False
        location = answer.headers.get("location")
        if answer.status == 202 and location:
            # The registry has started an upload instead; it is not needed.
            with suppress(httpx.HTTPError, OcibridgeError):
                target = str(self.host.url(location, call, answer.url))
                self.host.once(Call("DELETE", target, call.what, self.owner, scope=call.scope))
        return answer.status == 201

    # Listings.

    @property
    def referrers_by_tag(self) -> bool:
        """Whether the host was found to have no list of referrers."""
        return self.host in _without_api

    def referrers(self, digest: str) -> list[Descriptor]:
        """Manifests whose subject is `digest`, from the API or the fallback tag ("Listing Referrers").

        A host that has answered once as those without the API do is not asked again.
        """
        if self.referrers_by_tag:
            return self.fallback_referrers(digest)[0]
        what = f"listing the referrers of {digest}"
        # GHCR redirects this one to a page that answers 429 (seen in artifacthub#4785), so redirects are not followed.
        call = self.call("GET", f"referrers/{digest}", what, headers={"Accept": MEDIA_TYPE_INDEX}, follow=False)
        found: list[Descriptor] = []
        seen: set[str] = set()
        while True:
            try:
                answer = self.host.request(call)
            except StoreError as exc:
                # What is forbidden is not absent, and pages that were read are not to be forgotten.
                if exc.status in (None, 401, 403) or seen:
                    raise
                # An error code comes from one who knows the question, and this repository may lack the API alone.
                if exc.status in (404, 405) and exc.code in (None, "UNSUPPORTED"):
                    _without_api.add(self.host)
                return self.fallback_referrers(digest)[0]
            if not answer.headers.get("content-type", "").startswith(MEDIA_TYPE_INDEX):
                return self.fallback_referrers(digest)[0]
            index = parse_document(Index, answer.body, f"{self.owner}: {what}", call.limit)
            found += index.manifests
            if len(found) > MAX_REFERRERS:
                raise LimitError(
                    f"{self.owner} lists more than {MAX_REFERRERS} referrers of {digest}", hint="copy without referrers"
                )
            seen.add(call.url)
            link = next_link(answer.headers.get("link"))
            following = None if link is None else str(self.host.url(link, call, answer.url))
            if following is None or following in seen or len(seen) >= MAX_PAGES:
                return found
            if Site.of(httpx.URL(following)) != self.host.site:
                raise StoreError(
                    f"{self.owner}: {what} failed because the next page is on another host",
                    hint="the registry, or a proxy before it, is not set up safely; ask its administrator",
                )
            call = self.call("GET", following, what, headers=call.headers, follow=False)

    def fallback_referrers(self, digest: str) -> tuple[list[Descriptor], bytes | None]:
        """Entries and bytes of the index under the fallback tag ("Referrers Tag Schema")."""
        try:
            data, _ = self.get_manifest(digest.replace(":", "-"), (MEDIA_TYPE_INDEX,))
        except NotFound:
            return [], None
        owner = f"the referrers index of {self.owner}@{digest}"
        return parse_document(Index, data, owner, self.host.options.limits.manifest).manifests, data

    def add_fallback_referrer(self, subject: str, descriptor: Descriptor) -> None:
        """Enter a manifest into the fallback tag of its subject, for registries without the referrers API.

        Two clients that do this at the same moment can lose an entry; the specification knows no remedy.
        """
        known, _ = self.fallback_referrers(subject)
        if any(entry.digest == descriptor.digest for entry in known):
            return
        tag = subject.replace(":", "-")
        try:
            self.put_manifest(Index(manifests=[*known, descriptor]).to_json(), MEDIA_TYPE_INDEX, tag)
        except StoreError as exc:
            if exc.status != 400:
                raise
            # Registries that look whether all entries are there do not take those that were deleted meanwhile.
            left = [entry for entry in known if self.head_manifest(entry.digest) is not None]
            if len(left) == len(known):
                raise
            self.put_manifest(Index(manifests=[*left, descriptor]).to_json(), MEDIA_TYPE_INDEX, tag)

    def call(
        self,
        method: str,
        path: str,
        what: str,
        actions: str = "pull",
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        follow: bool = True,
    ) -> Call:
        """A call on a path of this repository, or on a whole URL."""
        url = path if "://" in path else f"/v2/{self.name}/{path}"
        scope: Scope = repository_scope(self.name, actions)
        options = self.host.options
        return Call(
            method,
            url,
            what,
            self.owner,
            scope,
            headers or {},
            body,
            limit=options.limits.manifest,
            follow=follow,
        )


def next_link(header: str | None) -> str | None:
    """The address of the next page in a `Link` header (RFC 8288), as it stands there, if there is one."""
    match = _NEXT.search(header or "")
    return match[1] if match else None
