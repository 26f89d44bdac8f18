# SPDX-License-Identifier: Apache-2.0
"""What every store can do. A subclass moves bytes; the public methods check what came back."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any

from ..errors import IntegrityError, LimitError, NotFound, StoreError
from ..io.content import ByteCount, Content, ForwardingReader, Reader, fill, ignore_bytes, writable
from ..layers import OnePass
from ..oci import Descriptor, media_type_of, parse_json, sha256_digest
from ..settings import DEFAULT_LIMITS, Limits


class Store(ABC):
    """One repository of blobs, manifests and tags.

    Attributes:
        name: What messages call it: `host/repository`, `oci:DIR` or `oci-archive:FILE`.
        parallel: Whether blobs may be pushed from several threads at once.
        notes: Folder for notes that let a later process go on where this one was stopped; None keeps none.
        limits: See `ocibridge.settings.Limits`.
    """

    name: str
    parallel: bool = True
    notes: Path | None = None
    limits: Limits = DEFAULT_LIMITS

    @property
    def warnings(self) -> Sequence[str]:
        """What the other side wants its users to know (distribution-spec, "Warnings")."""
        return ()

    @property
    def place(self) -> str:
        """What a mount stays within: the address of a registry, or the store itself."""
        return self.name

    @property
    def referrers_by_tag(self) -> bool:
        """Whether referrers are known to be listed under tags alone, as this is a registry without the API."""
        return False

    # What a subclass provides.

    @abstractmethod
    def _read_manifest(self, version: str) -> tuple[bytes, str | None]:
        """Raw manifest bytes (bounded) and the announced media type, by tag or digest."""

    @abstractmethod
    def _open_blob(self, descriptor: Descriptor, offset: int) -> Reader:
        """Raw bytes of a blob from `offset`; nothing verified."""

    @abstractmethod
    def has_blob(self, descriptor: Descriptor) -> bool:
        """Whether the store holds the blob (of this digest and, where it can tell, this size)."""

    @abstractmethod
    def push_blob(self, descriptor: Descriptor, content: Content, on_bytes: ByteCount = ignore_bytes) -> None:
        """Store a blob; returns only when the store has verified its digest.

        Raises:
            IntegrityError: the content does not have the digest or size of the descriptor.
            StoreError: the store refused it or could not be reached.
        """

    @abstractmethod
    def push_manifest(self, data: bytes, media_type: str, tag: str | None) -> Descriptor:
        """Store a manifest byte for byte, under a tag or by digest alone; last step of every copy."""

    @abstractmethod
    def tags(self) -> Sequence[str]:
        """Every tag, sorted."""

    @abstractmethod
    def referrers(self, digest: str, artifact_type: str | None = None) -> Sequence[Descriptor]:
        """Manifests whose `subject` is `digest` (distribution-spec, "Listing Referrers"), of one artifact type."""

    def delete(self, version: str) -> None:
        """Remove a tag, and nothing else, or a manifest by digest, with all tags that lead to it. Blobs stay.

        Raises:
            NotFound: there is none.
            StoreError: the store does not allow it.
        """
        raise StoreError(f"{self.name}: nothing can be deleted here", hint="remove it with the store's own tools")

    def head(self, version: str) -> Descriptor | None:
        """The descriptor of a manifest, by tag or digest, without its bytes where that can be; None: there is none.

        Raises:
            StoreError: the store cannot be asked, or does not answer to us.
        """
        try:
            return self.resolve(version)
        except NotFound:
            return None

    def is_new(self) -> bool:
        """Whether there is nothing here yet, so that it need not be asked for what is; False where that is unknown."""
        return False

    def batch(self) -> AbstractContextManager[None]:
        """The manifests that are pushed in the block may become visible together, at its end."""
        return nullcontext()

    def mount_blob(self, descriptor: Descriptor, source: Store) -> bool:
        """Take the blob over from another repository of the same host without moving it; False where impossible."""
        return False

    def streams(self) -> bool:
        """Whether a blob can be stored while it is hashed, and none of any model can be here yet."""
        return False

    def stream_blob(self, reading: OnePass, key: str | None, on_bytes: ByteCount = ignore_bytes) -> bool:
        """Store a blob whose digest is known only at its end.

        Args:
            reading: Its bytes.
            key: Equal for equal blobs, where there is such a thing; a later process may go on where this one stopped.
            on_bytes: See `push_blob`.

        Returns:
            Whether it is stored. If not, nothing is, and `push_blob` may do better once `reading` is at its end.

        Raises:
            IntegrityError: a file of the layer is not what its format promises.
            SourceError: it cannot be read, or changed while it was read.
        """
        return False

    def interrupt(self) -> None:
        """Wake all threads that wait for this store, which then fail at once; the store is of no use after that."""

    def close(self) -> None:
        """Give back connections and files; nothing that was not pushed whole stays visible."""

    # What callers use.

    def fetch_manifest(self, version: str) -> tuple[Descriptor, bytes]:
        """A manifest or index, byte for byte, by tag or digest.

        Returns:
            Its descriptor, and its bytes (at most `Limits.manifest`).

        Raises:
            NotFound: there is none.
            IntegrityError: it does not have the digest asked for.
        """
        data, announced = self._read_manifest(version)
        if len(data) > self.limits.manifest:
            raise LimitError(f"{self.name}: the manifest {version} is larger than {self.limits.manifest} bytes")
        digest = sha256_digest(data)
        if version.startswith("sha256:") and digest != version:
            raise IntegrityError(
                f"{self.name} answered with {digest} when asked for the manifest {version}",
                hint="do not trust this store before it is repaired",
            )
        document: Any = parse_json(data, f"the manifest {self.name}:{version}", self.limits.manifest)
        media_type = media_type_of(document if isinstance(document, dict) else {}, announced)
        return Descriptor(media_type=media_type, digest=digest, size=len(data)), data

    def resolve(self, version: str) -> Descriptor:
        """The descriptor of a manifest, by tag or digest.

        Raises:
            NotFound: there is none.
        """
        return self.fetch_manifest(version)[0]

    def open_blob(self, descriptor: Descriptor) -> Reader:
        """A blob as a stream that fails at its end unless size and digest match.

        Use no byte for good before the stream has ended: `read` gives b"" only for a blob that is whole.
        """
        return VerifiedReader(self._open_blob(descriptor, 0), descriptor, self.name)

    def resume_blob(self, descriptor: Descriptor, offset: int) -> Reader:
        """The bytes of a blob from `offset`, unverified: for whoever verifies the whole that they belong to."""
        return self._open_blob(descriptor, offset)

    def read_blob(self, descriptor: Descriptor, limit: int) -> bytes:
        """A small blob, verified.

        Raises:
            LimitError: it is larger than `limit` bytes.
        """
        if descriptor.size > limit:
            raise LimitError(
                f"{self.name}: the blob {descriptor.digest} has {descriptor.size} bytes, more than {limit}"
            )
        with self.open_blob(descriptor) as reader:
            buffer = memoryview(bytearray(descriptor.size + 1))
            return bytes(buffer[: fill(reader, buffer)])

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class VerifiedReader(ForwardingReader):
    """Passes on exactly the bytes of a descriptor, or raises.

    Raises:
        IntegrityError: at the byte after the declared size, at a premature end, or at the end on another digest.
    """

    def __init__(self, reader: Reader, descriptor: Descriptor, owner: str) -> None:
        self.source = reader
        self._descriptor = descriptor
        self._owner = owner
        self._hash = hashlib.sha256()
        self._count = 0
        self._done = False

    def readinto(self, buffer: object, /) -> int:
        """Fill `buffer`, hashing on the way."""
        if self._done:
            return 0
        target = writable(buffer)
        count = self.source.readinto(target) or 0
        self._count += count
        if self._count > self._descriptor.size or (not count and len(target) and self._count < self._descriptor.size):
            raise self._error("another size")
        self._hash.update(target[:count])
        if not count and len(target):
            if "sha256:" + self._hash.hexdigest() != self._descriptor.digest:
                raise self._error("other bytes")
            self._done = True
        return count

    def _error(self, what: str) -> IntegrityError:
        return IntegrityError(
            f"{self._owner} gave {what} for the blob {self._descriptor.digest} ({self._descriptor.size} bytes)",
            hint="try again; if it stays so, the store is damaged and the model must be pushed again",
        )

    def close(self) -> None:
        """Close the source too."""
        if not self.closed:
            self.source.close()
        super().close()
