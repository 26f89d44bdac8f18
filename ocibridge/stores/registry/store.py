# SPDX-License-Identifier: Apache-2.0
"""A repository of a registry, as a store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...io.content import Content
from ...io.readers import ByteCount, Reader, ignore_bytes
from ...oci import Descriptor, Digest, RegistryReference, parse_digest
from ..base import BlobStream, Capabilities, Store
from ..verified import VerifiedStore
from .client import RegistryClient
from .distribution import ACCEPTED_MANIFESTS
from .host import Host
from .hosts import Hosts
from .options import RegistryOptions


class RegistryStore(VerifiedStore):
    """One repository of an OCI registry: a `RegistryClient`, and the repository that it is asked for.

    Example:
        >>> reference = RegistryReference("localhost:5000", "models/digits", "v1")
        >>> with RegistryStore(reference) as store:  # doctest: +SKIP
        ...     descriptor, data = store.fetch_manifest(reference.version)

    Args:
        reference: Host and repository; its tag and digest do not matter here.
        options: How to reach the host.
        hosts: Host state shared with other stores, closed by its owner; None makes an own one.
        accept: Media types of manifests to ask for; empty: all that are known.
        notes: Folder for notes that let a later process resume an interrupted upload; None keeps none.
        shared: True if other work uses the same connections and must continue when this store is interrupted.

    Attributes:
        client: The client of the registry.
        container: The repository, as a type of the client.

    Every method raises a `StoreError` where the registry refuses or cannot be reached, and nothing but an
    `OcibridgeError`.
    """

    def __init__(
        self,
        reference: RegistryReference,
        options: RegistryOptions | None = None,
        hosts: Hosts | None = None,
        accept: tuple[str, ...] = (),
        notes: Path | None = None,
        shared: bool = False,
    ) -> None:
        self._accept = accept or ACCEPTED_MANIFESTS
        self.notes = notes
        self._shared = shared
        self.name = reference.name
        self.options = options or RegistryOptions()
        self.limits = self.options.limits
        self.client = RegistryClient(reference.host, options=self.options, hosts=hosts)
        self.container = self.client.container(reference.host, reference.repository)

    @property
    def host(self) -> Host:
        """State of the registry host."""
        return self.client.host(self.container.registry)

    def _read_manifest(self, version: str) -> tuple[bytes, str | None]:
        return self.client.fetch_manifest(self.container, version, self._accept)

    def _open_blob(self, descriptor: Descriptor, offset: int) -> Reader:
        return self.client.open_blob(self.container, descriptor, offset)

    def _open_range(self, descriptor: Descriptor, offset: int, end: int) -> Reader:
        return self.client.open_blob(self.container, descriptor, offset, end)

    def has_blob(self, descriptor: Descriptor) -> bool:
        """Return whether the registry holds the blob, in this size where it tells one."""
        return self.client.has_blob(self.container, descriptor)

    def push_blob(self, descriptor: Descriptor, content: Content, on_bytes: ByteCount = ignore_bytes) -> None:
        """Send a blob; the registry has verified its digest when this returns.

        Args:
            descriptor: Digest and size of the blob.
            content: Its bytes, which are opened again for each try.
            on_bytes: Called with the number of bytes handed to the connection, or a negative number of bytes to be sent
                again. The sum is the blob's size after success and 0 after failure.

        Raises:
            IntegrityError: the content does not have the digest or size of the descriptor.
            StoreError: the registry refused it or could not be reached.
        """
        self.client.push_blob(self.container, descriptor, content, on_bytes, notes=self.notes)

    def stream_blob(self, stream: BlobStream, key: str | None, on_bytes: ByteCount = ignore_bytes) -> bool:
        """Send a blob while it is hashed; see `StreamPusher.stream_blob` and `StreamUpload`."""
        return self.client.stream_blob(self.container, stream, key, on_bytes, self.notes)

    def push_manifest(self, data: bytes, media_type: str, tag: str | None) -> Descriptor:
        """Store a manifest byte for byte, under a tag or by digest alone; see `DistributionClient.push_manifest`."""
        self.client.push_manifest(self.container, data, media_type, tag)
        return Descriptor.of(data, media_type)

    def mount_blob(self, descriptor: Descriptor, source: Store) -> bool:
        """Take the blob over from another repository of the same host; False where impossible."""
        if not isinstance(source, RegistryStore) or source.host.origin != self.host.origin:
            return False
        if source.container.api_prefix == self.container.api_prefix:
            return self.has_blob(descriptor)
        return self.client.mount_blob(self.container, descriptor.digest, source.container.api_prefix)

    @property
    def capabilities(self) -> Capabilities:
        """Capabilities of the registry, as observed."""
        return Capabilities(
            mount_scope=str(self.host.origin),
            streams=self.client.takes_streams(self.container),
            referrers_by_tag=not self.host.can.referrers,
        )

    def head(self, version: str) -> Descriptor | None:
        """The descriptor of a manifest, by a HEAD request, which no rate limit of pulls counts."""
        return self.client.head_manifest(self.container, version, self._accept)

    def is_new(self) -> bool:
        """Return whether the repository has no tag."""
        return self.client.is_new(self.container)

    def delete(self, version: str) -> None:
        """Remove a tag or a manifest; see `Deleter.delete` and `DistributionClient.remove_tag`."""
        if version.startswith("sha256:"):
            self.client.delete_manifest(self.container, parse_digest(version, self.name))
        else:
            self.client.remove_tag(self.container, version)

    def tags(self) -> Sequence[str]:
        """Every tag, sorted."""
        return sorted(set(self.client.get_tags(self.container)))

    def referrers(self, digest: Digest, artifact_type: str | None = None) -> Sequence[Descriptor]:
        """Manifests whose subject is `digest`, from the referrers API or the fallback tag."""
        found = self.client.referrers(self.container, parse_digest(digest, self.name))
        return [entry for entry in found if artifact_type in (None, entry.artifact_type)]

    @property
    def warnings(self) -> list[str]:
        """Texts of `Warning` headers of the registry, each once, at most 20."""
        return [f"{self.host.name} says: {text}" for text in self.host.warnings]

    def interrupt(self) -> None:
        """Break all connections to the host, unless they are shared; see `Store.interrupt` and `Hosts.interrupt`."""
        if not self._shared:
            self.host.interrupt()

    def close(self) -> None:
        """Give back connections, unless they are shared."""
        self.client.close()
