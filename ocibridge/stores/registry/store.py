# SPDX-License-Identifier: Apache-2.0
"""A repository of a registry, as a store."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...content import Content, Reader
from ...errors import FormatError
from ...layers import OnePass
from ...model import ByteCount, ignore_bytes
from ...oci import Descriptor, Digest, RegistryReference, parse_digest, parse_json
from ..base import Store
from .hosts import Hosts
from .options import RegistryOptions
from .repository import ACCEPTED_MANIFESTS, Repository
from .stream import BlobStream, takes_streams

if TYPE_CHECKING:
    from .client import OrasRegistry


class RegistryStore(Store):
    """One repository of an OCI registry.

    Example:
        >>> reference = RegistryReference("localhost:5000", "models/digits", "v1")
        >>> with RegistryStore(reference) as store:  # doctest: +SKIP
        ...     descriptor, data = store.fetch_manifest(reference.version)

    Args:
        reference: Host and repository; its tag and digest do not matter here.
        options: How to reach the host.
        hosts: Connections, tokens and back-off to share with other stores, closed by whoever made it; None makes
            its own.
        accept: Media types of manifests to ask for.

    Every method raises a `StoreError` where the registry refuses or cannot be reached, and nothing but an
    `OcibridgeError` ever.
    """

    def __init__(
        self,
        reference: RegistryReference,
        options: RegistryOptions | None = None,
        hosts: Hosts | None = None,
        accept: tuple[str, ...] = ACCEPTED_MANIFESTS,
    ) -> None:
        self._accept = accept
        self.name = reference.name
        self.options = options or RegistryOptions()
        self.limits = self.options.limits
        self._owns_hosts = hosts is None
        self._hosts = hosts or Hosts()
        self.repository = Repository(self._hosts.get(reference.host, self.options), reference.repository)
        self._client: OrasRegistry | None = None
        self._lock = threading.Lock()

    @property
    def client(self) -> OrasRegistry:
        """The ORAS client for this host, over the same connections."""
        with self._lock:
            if self._client is None:
                from .client import OrasRegistry  # slow to import, and only listings need it

                self._client = OrasRegistry(self.repository.host.name, self.options, self._hosts)
            return self._client

    def _read_manifest(self, version: str) -> tuple[bytes, str | None]:
        return self.repository.get_manifest(version, self._accept)

    def _open_blob(self, descriptor: Descriptor, offset: int) -> Reader:
        return self.repository.open_blob(descriptor, offset)

    def has_blob(self, descriptor: Descriptor) -> bool:
        """Whether the registry holds the blob, in this size where it tells one."""
        return self.repository.has_blob(descriptor)

    def push_blob(self, descriptor: Descriptor, content: Content, on_bytes: ByteCount = ignore_bytes) -> None:
        """Send a blob; the registry has verified its digest when this returns.

        Args:
            descriptor: Digest and size of the blob.
            content: Its bytes, which are opened again for each try.
            on_bytes: Told the bytes handed to the connection; a negative number takes back bytes that have to be sent
                again. The sum is the blob's size after success and 0 after failure.

        Raises:
            IntegrityError: the content does not have the digest or size of the descriptor.
            StoreError: the registry refused it or could not be reached.
        """
        self.repository.push_blob(descriptor, content, on_bytes, notes=self.notes)

    def streams(self) -> bool:
        """Whether the host may take streams, and the repository has no tag yet."""
        return takes_streams(self.repository.host) and self.repository.is_new()

    def stream_blob(self, reading: OnePass, key: str | None, on_bytes: ByteCount = ignore_bytes) -> bool:
        """Send a blob while it is hashed; see `Store.stream_blob` and `BlobStream`."""
        if not takes_streams(self.repository.host):
            return False
        with self.repository.note(self.notes if key else None, key or "", reading.size or 0) as note:
            return BlobStream(self.repository.host, self.repository.name, reading, on_bytes, note).run()

    def push_manifest(self, data: bytes, media_type: str, tag: str | None) -> Descriptor:
        """Store a manifest byte for byte, under a tag or by digest alone.

        A manifest with a `subject` is entered into the referrers fallback tag where the registry does not say that it
        keeps referrers itself (distribution-spec, "Pushing Manifests with Subject").

        Raises:
            IntegrityError: the registry stored other bytes.
            LimitError: there are more bytes than `Limits.manifest`.
        """
        descriptor = Descriptor.of(data, media_type)
        answer = self.repository.put_manifest(data, media_type, tag)
        if "oci-subject" not in answer.headers:
            subject, entry = _referrer(data, descriptor, self.name)
            if subject:
                self.repository.add_fallback_referrer(subject, entry)
        return descriptor

    def mount_blob(self, descriptor: Descriptor, source: Store) -> bool:
        """Take the blob over from another repository of the same host; False where impossible."""
        if not isinstance(source, RegistryStore) or source.repository.host.origin != self.repository.host.origin:
            return False
        if source.repository.name == self.repository.name:
            return self.has_blob(descriptor)
        return self.repository.mount_blob(descriptor.digest, source.repository.name)

    @property
    def place(self) -> str:
        """The address of the registry."""
        return str(self.repository.host.origin)

    @property
    def referrers_by_tag(self) -> bool:
        """Whether the registry was found to have no list of referrers."""
        return self.repository.referrers_by_tag

    def head(self, version: str) -> Descriptor | None:
        """The descriptor of a manifest, by a HEAD request, which counts against no quota of pulls."""
        return self.repository.head_manifest(version, self._accept)

    def is_new(self) -> bool:
        """Whether the repository has no tag."""
        return self.repository.is_new()

    def delete(self, version: str) -> None:
        """Remove a tag or a manifest; see `Store.delete` and `Repository.delete_tag`."""
        if version.startswith("sha256:"):
            self.repository.delete_manifest(parse_digest(version, self.name))
        else:
            self.repository.delete_tag(version)

    def tags(self) -> Sequence[str]:
        """Every tag, sorted."""
        found = self.client.get_tags(self.client.container(self.repository.host.name, self.repository.name))
        if not all(isinstance(tag, str) for tag in found):
            raise FormatError(f"{self.name}: the list of tags is not valid")
        return sorted(set(found))

    def referrers(self, digest: Digest, artifact_type: str | None = None) -> Sequence[Descriptor]:
        """Manifests whose subject is `digest`, from the referrers API or the fallback tag."""
        found = self.repository.referrers(parse_digest(digest, self.name))
        return [entry for entry in found if artifact_type in (None, entry.artifact_type)]

    @property
    def warnings(self) -> list[str]:
        """What the registry has sent in `Warning` headers, bounded, each once."""
        return [f"{self.repository.host.name} says: {text}" for text in self.repository.host.warnings]

    def interrupt(self) -> None:
        """Break all connections to the host; see `Store.interrupt`."""
        self.repository.host.interrupt()

    def __enter__(self) -> RegistryStore:
        return self

    def close(self) -> None:
        """Give back connections, unless they are shared."""
        if self._client is not None:
            self._client.close()
        if self._owns_hosts:
            self._hosts.close()


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
