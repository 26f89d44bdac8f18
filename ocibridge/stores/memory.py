# SPDX-License-Identifier: Apache-2.0
"""An image layout in memory: for tests, and for programs that make or look at artifacts without a disk."""

from __future__ import annotations

import threading
from itertools import count

from ..errors import IntegrityError
from ..io.content import BytesContent, Content
from ..io.readers import ByteCount, ignore_bytes, read_full
from ..oci import Descriptor, parse_digest, sha256_digest
from ..settings import DEFAULT_LIMITS, Limits
from .base import BlobStream, Capabilities, Store, can_mount
from .imageindex import ImageIndex, ImageLayout, manifest_entry

_numbers = count(1)


class MemoryStore(ImageLayout):
    """One repository in memory; several threads may use it at once.

    Args:
        name: What messages call it; empty takes `memory:1`, `memory:2`, …
        scope: Stores with the same one mount blobs from each other, as the repositories of one registry do; empty: this
            store alone.
        limits: See `ocibridge.settings.Limits`.

    Example:
        >>> store = MemoryStore()
        >>> manifest = b'{"schemaVersion":2}'
        >>> store.push_manifest(manifest, "application/vnd.oci.image.manifest.v1+json", "v1").size
        19
        >>> store.tags()
        ['v1']
    """

    def __init__(self, name: str = "", scope: str = "", limits: Limits = DEFAULT_LIMITS) -> None:
        self.name = name or f"memory:{next(_numbers)}"
        self.limits = limits
        self._scope = scope or self.name
        self._blobs: dict[str, bytes] = {}
        self._image_index = ImageIndex()
        self._lock = threading.Lock()

    @property
    def capabilities(self) -> Capabilities:
        """Blobs are pushed from several threads, streamed, and mounted within `scope`."""
        return Capabilities(self._scope, streams=True)

    def _index(self) -> ImageIndex:
        return self._image_index

    def _blob(self, digest: str) -> Content | None:
        data = self._blobs.get(parse_digest(digest, self.name))
        return None if data is None else BytesContent(data)

    def is_new(self) -> bool:
        """Return whether there is no manifest and no blob."""
        return not self._blobs and not self._image_index.entries

    def push_blob(self, descriptor: Descriptor, content: Content, on_bytes: ByteCount = ignore_bytes) -> None:
        """Keep a blob; one that is there with the right size is left alone. See `Pusher.push_blob`."""
        if self.has_blob(descriptor):
            return
        with content.open() as reader:
            buffer = memoryview(bytearray(descriptor.size + 1))
            data = bytes(buffer[: read_full(reader, buffer)])
        on_bytes(len(data))
        if len(data) != descriptor.size or sha256_digest(data) != descriptor.digest:
            raise IntegrityError(
                f"the bytes given for the blob {descriptor.digest} ({descriptor.size} bytes) of {self.name} are others",
                hint="the source changed or is damaged; run the command again",
            )
        self._blobs[descriptor.digest] = data

    def stream_blob(self, stream: BlobStream, key: str | None, on_bytes: ByteCount = ignore_bytes) -> bool:
        """Keep a blob while it is hashed; see `StreamPusher.stream_blob`."""
        data = bytearray()
        for piece in stream:
            data += piece
            on_bytes(len(piece))
        self._blobs[stream.finish().digest] = bytes(data)
        return True

    def mount_blob(self, descriptor: Descriptor, source: Store) -> bool:
        """Share the bytes of another store of the same scope."""
        if isinstance(source, MemoryStore) and can_mount(source, self) and source.has_blob(descriptor):
            self._blobs[descriptor.digest] = source._blobs[descriptor.digest]
        return self.has_blob(descriptor)

    def push_manifest(self, data: bytes, media_type: str, tag: str | None) -> Descriptor:
        """Keep a manifest and list it; see `Pusher.push_manifest`."""
        descriptor, entry = manifest_entry(data, media_type, self.name, self.limits)
        with self._lock:
            self._blobs[descriptor.digest] = data
            self._image_index = self._image_index.with_entry(entry, tag)
        return descriptor

    def delete(self, version: str) -> None:
        """Take a tag, or a digest with its tags, off the list; blobs stay."""
        with self._lock:
            self._image_index = self._delisted(version)
