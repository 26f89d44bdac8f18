# SPDX-License-Identifier: Apache-2.0
"""Protocols of stores; `Store` is all of them together.

Code that only reads manifests takes a `ManifestFetcher`, code that only lists tags a `TagLister`, and so on: any object
with these methods will do. The stores of this package derive from `ocibridge.stores.verified.VerifiedStore`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ..io.content import Content
from ..io.readers import ByteCount, Reader, ignore_bytes
from ..oci import Descriptor
from ..settings import Limits

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Capabilities of a store that are known without a request.

    Attributes:
        mount_scope: Blobs can be mounted between stores that have the same one: the address of a registry, say.
        parallel: Whether blobs may be pushed from several threads at once.
        streams: Whether `stream_blob` may work: a blob can be stored before its digest is known.
        referrers_by_tag: Whether referrers are listed under fallback tags alone (a registry without the referrers API).
        folder: Where blobs are written on a disk of this machine, whose free space is checked before; None elsewhere.
    """

    mount_scope: str
    parallel: bool = True
    streams: bool = False
    referrers_by_tag: bool = False
    folder: Path | None = None


class ManifestFetcher(Protocol):
    """Manifests can be read.

    Attributes:
        name: What messages call the store: `host/repository`, `oci:DIR`, `oci-archive:FILE`, …
        limits: See `ocibridge.settings.Limits`.
    """

    name: str
    limits: Limits

    def fetch_manifest(self, version: str) -> tuple[Descriptor, bytes]:
        """A manifest or index, byte for byte, by tag or digest.

        Returns:
            Its descriptor, and its bytes (at most `Limits.manifest`).

        Raises:
            NotFound: there is none.
            IntegrityError: it does not have the digest asked for.
        """
        ...

    def resolve(self, version: str) -> Descriptor:
        """The descriptor of a manifest, by tag or digest.

        Raises:
            NotFound: there is none.
        """
        ...

    def head(self, version: str) -> Descriptor | None:
        """The descriptor of a manifest, by tag or digest, without its bytes where possible; None if there is none.

        Raises:
            StoreError: the store cannot be asked, or refuses us.
        """
        ...


class BlobFetcher(Protocol):
    """Blobs can be read. Attributes: see `ManifestFetcher`."""

    name: str

    def has_blob(self, descriptor: Descriptor) -> bool:
        """Return whether the store holds the blob (of this digest and, where it can tell, this size)."""
        ...

    def open_blob(self, descriptor: Descriptor) -> Reader:
        """A blob as a stream that fails at its end unless size and digest match.

        Use no byte for good before the stream has ended: `read` gives b"" only for a blob that is whole.

        Raises:
            NotFound: there is none.
        """
        ...

    def resume_blob(self, descriptor: Descriptor, offset: int) -> Reader:
        """The bytes of a blob from `offset`, unverified: for a caller that verifies the whole that they belong to."""
        ...

    def open_range(self, descriptor: Descriptor, offset: int, size: int) -> Reader:
        """`size` bytes of a blob from `offset`, unverified; a store that can send a range sends nothing else.

        Args:
            descriptor: The blob.
            offset: First byte.
            size: Number of bytes; the blob has to have them.
        """
        ...

    def read_blob(self, descriptor: Descriptor, limit: int) -> bytes:
        """A small blob, verified.

        Raises:
            LimitError: it is larger than `limit` bytes.
        """
        ...


class Pusher(Protocol):
    """Blobs and manifests can be stored. Attributes: see `ManifestFetcher`."""

    name: str

    def has_blob(self, descriptor: Descriptor) -> bool:
        """See `BlobFetcher.has_blob`."""
        ...

    def push_blob(self, descriptor: Descriptor, content: Content, on_bytes: ByteCount = ignore_bytes) -> None:
        """Store a blob; returns only when the store has verified its digest.

        Args:
            descriptor: Digest and size of the blob.
            content: Its bytes, which may be opened more than once.
            on_bytes: Called with the number of bytes stored; a negative number takes back bytes to be sent again.

        Raises:
            IntegrityError: the content does not have the digest or size of the descriptor.
            StoreError: the store refused it or could not be reached.
        """
        ...

    def push_manifest(self, data: bytes, media_type: str, tag: str | None) -> Descriptor:
        """Store a manifest byte for byte, under a tag or by digest alone; last step of every copy."""
        ...

    def batch(self) -> AbstractContextManager[None]:
        """The manifests that are pushed in the block may become visible together, at its end."""
        ...


class Digested(Protocol):
    """Something with a digest: a descriptor, the digests of a layer."""

    @property
    def digest(self) -> str:
        """`sha256:…`."""
        ...


class BlobStream(Iterator[memoryview | bytes], Protocol):
    """The bytes of a blob whose digest is known once they have been read; each piece is good until the next one."""

    @property
    def label(self) -> str:
        """Name for messages."""
        ...

    @property
    def size(self) -> int | None:
        """Length in bytes; None if only reading it will tell."""
        ...

    def finish(self) -> Digested:
        """Read what is left, and give the digest of all bytes."""
        ...


class StreamPusher(Protocol):
    """A blob can be stored while it is hashed, where `Capabilities.streams` says so."""

    def stream_blob(self, stream: BlobStream, key: str | None, on_bytes: ByteCount = ignore_bytes) -> bool:
        """Store a blob whose digest is known only at its end.

        Args:
            stream: Its bytes.
            key: Equal for equal blobs, if there is such a key; a later process may resume where this one stopped.
            on_bytes: See `Pusher.push_blob`.

        Returns:
            Whether it is stored. If not, nothing is, and `push_blob` may do better once `stream` is at its end.

        Raises:
            IntegrityError: the stream found that its bytes are not the promised ones.
            SourceError: it cannot be read, or changed while it was read.
        """
        ...


class Mounter(Protocol):
    """Blobs can be taken over from stores of the same `Capabilities.mount_scope`."""

    def mount_blob(self, descriptor: Descriptor, source: Store) -> bool:
        """Take the blob over from another store without moving it; False where impossible."""
        ...


class TagLister(Protocol):
    """Tags can be listed."""

    def tags(self) -> Sequence[str]:
        """Every tag, sorted.

        Raises:
            NotFound: a registry has no such repository.
        """
        ...

    def is_new(self) -> bool:
        """Return whether the store is empty, so that no request for its content is needed; False if unknown."""
        ...


class ReferrerLister(Protocol):
    """Referrers can be listed."""

    name: str

    def referrers(self, digest: str, artifact_type: str | None = None) -> Sequence[Descriptor]:
        """Manifests whose `subject` is `digest` (distribution-spec, "Listing Referrers"), of one artifact type."""
        ...


class Deleter(Protocol):
    """Tags and manifests can be removed."""

    def delete(self, version: str) -> None:
        """Remove a tag, and nothing else, or a manifest by digest, with all tags that lead to it. Blobs stay.

        Raises:
            NotFound: there is none.
            StoreError: the store does not allow it.
        """
        ...


def can_mount(source: Store, target: Store) -> bool:
    """Return whether `target` may take over blobs from `source` without moving them."""
    return source.capabilities.mount_scope == target.capabilities.mount_scope


class Store(ManifestFetcher, BlobFetcher, Pusher, StreamPusher, Mounter, TagLister, ReferrerLister, Deleter, Protocol):
    """One repository of blobs, manifests and tags. As a context manager it is closed at the end."""

    @property
    def capabilities(self) -> Capabilities:
        """Capabilities of the store, known without a request; they may change while it is used."""
        ...

    @property
    def warnings(self) -> Sequence[str]:
        """Warnings of the registry (distribution-spec, "Warnings")."""
        ...

    def interrupt(self) -> None:
        """Wake all threads that wait for this store, which then fail at once; the store is of no use after that."""
        ...

    def close(self) -> None:
        """Give back connections and files; nothing that was not pushed whole stays visible."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...
