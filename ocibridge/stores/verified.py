# SPDX-License-Identifier: Apache-2.0
"""The base of every store: a subclass moves bytes, and the public methods here check what came back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from ..errors import IntegrityError, LimitError, NotFound, StoreError
from ..io.content import BytesContent
from ..io.readers import ByteCount, HashingReader, LimitedReader, Reader, byte_view, ignore_bytes, read_full
from ..oci import Descriptor, media_type_of, parse_json, sha256_digest
from ..settings import DEFAULT_LIMITS, Limits
from .base import BlobStream, Capabilities, Store

if TYPE_CHECKING:
    from typing_extensions import Self


class VerifiedStore(Store, ABC):
    """A store whose manifests and blobs are verified; operations that a subclass lacks are refused or return False."""

    name: str
    limits: Limits = DEFAULT_LIMITS

    @abstractmethod
    def _read_manifest(self, version: str) -> tuple[bytes, str | None]:
        """Raw manifest bytes (bounded) and the announced media type, by tag or digest; nothing verified."""

    @abstractmethod
    def _open_blob(self, descriptor: Descriptor, offset: int) -> Reader:
        """Raw bytes of a blob from `offset`; nothing verified."""

    @property
    def capabilities(self) -> Capabilities:
        """Blobs are pushed from several threads, and mounted from this very store only."""
        return Capabilities(mount_scope=self.name)

    @property
    def warnings(self) -> Sequence[str]:
        """None."""
        return ()

    def fetch_manifest(self, version: str) -> tuple[Descriptor, bytes]:
        """A manifest or index, verified; see `ManifestFetcher.fetch_manifest`."""
        data, announced = self._read_manifest(version)
        if len(data) > self.limits.manifest:
            raise LimitError(f"{self.name}: the manifest {version} is larger than {self.limits.manifest} bytes")
        digest = sha256_digest(data)
        if version.startswith("sha256:") and digest != version:
            raise IntegrityError(
                f"{self.name} returned {digest} instead of the manifest {version}",
                hint="do not trust this store before it is repaired",
            )
        document: Any = parse_json(data, f"the manifest {self.name}:{version}", self.limits.manifest)
        media_type = media_type_of(document if isinstance(document, dict) else {}, announced)
        return Descriptor(media_type=media_type, digest=digest, size=len(data)), data

    def resolve(self, version: str) -> Descriptor:
        """The descriptor of a manifest; see `ManifestFetcher.resolve`."""
        return self.fetch_manifest(version)[0]

    def head(self, version: str) -> Descriptor | None:
        """The descriptor of a manifest, or None; see `ManifestFetcher.head`."""
        try:
            return self.resolve(version)
        except NotFound:
            return None

    def open_blob(self, descriptor: Descriptor) -> Reader:
        """A blob as a stream, verified; see `BlobFetcher.open_blob`."""
        return VerifiedReader(self._open_blob(descriptor, 0), descriptor, self.name)

    def resume_blob(self, descriptor: Descriptor, offset: int) -> Reader:
        """The bytes of a blob from `offset`, unverified; see `BlobFetcher.resume_blob`."""
        return self._open_blob(descriptor, offset)

    def open_range(self, descriptor: Descriptor, offset: int, size: int) -> Reader:
        """A range of a blob, unverified; see `BlobFetcher.open_range`."""
        if not size:
            return BytesContent(b"").open()
        return LimitedReader(self._open_range(descriptor, offset, offset + size), size)

    def _open_range(self, descriptor: Descriptor, offset: int, end: int) -> Reader:
        """Raw bytes of a blob from `offset`, at least those before `end`."""
        return self._open_blob(descriptor, offset)

    def read_blob(self, descriptor: Descriptor, limit: int) -> bytes:
        """A small blob, verified; see `BlobFetcher.read_blob`."""
        if descriptor.size > limit:
            raise LimitError(
                f"{self.name}: the blob {descriptor.digest} has {descriptor.size} bytes, more than {limit}"
            )
        with self.open_blob(descriptor) as reader:
            buffer = memoryview(bytearray(descriptor.size + 1))
            return bytes(buffer[: read_full(reader, buffer)])

    def batch(self) -> AbstractContextManager[None]:
        """Each manifest is visible at once."""
        return nullcontext()

    def stream_blob(self, stream: BlobStream, key: str | None, on_bytes: ByteCount = ignore_bytes) -> bool:
        """Nothing is stored."""
        return False

    def mount_blob(self, descriptor: Descriptor, source: Store) -> bool:
        """Nothing has to be moved within one store."""
        return source.capabilities.mount_scope == self.capabilities.mount_scope and self.has_blob(descriptor)

    def is_new(self) -> bool:
        """Unknown."""
        return False

    def delete(self, version: str) -> None:
        """Refused: see `Deleter.delete`."""
        raise StoreError(f"{self.name}: nothing can be deleted here", hint="remove it with the store's own tools")

    def interrupt(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing is open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class VerifiedReader(HashingReader):
    """Passes on exactly the bytes of a descriptor, or raises.

    Raises:
        IntegrityError: at the byte after the declared size, at a premature end, or at the end on another digest.
    """

    def __init__(self, reader: Reader, descriptor: Descriptor, owner: str) -> None:
        super().__init__(reader)
        self._descriptor = descriptor
        self._owner = owner
        self._done = False

    def readinto(self, buffer: object, /) -> int:
        """Fill `buffer`, hashing on the way."""
        if self._done:
            return 0
        target = byte_view(buffer)
        count = super().readinto(target)
        if self.count > self._descriptor.size or (not count and len(target) and self.count < self._descriptor.size):
            raise self._error("another size")
        if not count and len(target):
            if "sha256:" + self.hash.hexdigest() != self._descriptor.digest:
                raise self._error("other bytes")
            self._done = True
        return count

    def _error(self, what: str) -> IntegrityError:
        return IntegrityError(
            f"{self._owner} gave {what} for the blob {self._descriptor.digest} ({self._descriptor.size} bytes)",
            hint="try again; if it stays so, the store is damaged and the model must be pushed again",
        )
