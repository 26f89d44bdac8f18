# SPDX-License-Identifier: Apache-2.0
"""The blobs that a copy moves: in a store, in memory, or layers whose digests appear while they are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..io.content import BytesContent, Content
from ..io.readers import Reader
from ..layers import Layer, LayerDigests
from ..oci import Descriptor
from ..oci.manifest import ANNOTATION_TITLE
from ..settings import KiB
from ..stores.base import Store
from .cache import DigestCache, LayerKey

SMALL = 256 * KiB
"""Blobs up to this size are fetched whole before they are sent."""


class Blob(Protocol):
    """A blob that goes to a target."""

    @property
    def label(self) -> str:
        """Name for messages and progress."""
        ...

    @property
    def descriptor(self) -> Descriptor | None:
        """Its digest and size; None before it was read."""
        ...

    @property
    def size(self) -> int:
        """Its length in bytes, as far as that is known."""
        ...

    @property
    def store(self) -> Store | None:
        """The store that has it, if one has."""
        ...

    def content(self) -> Content:
        """Its bytes, unverified: every store verifies what it is given. Only for a blob whose digest is known."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class StoredBlob:
    """A blob of a store, which is also the content of its bytes.

    Attributes:
        store: Where it is.
        descriptor: Its descriptor.
        name: What messages call it; empty is its title, else its digest.
    """

    store: Store
    descriptor: Descriptor
    name: str = ""

    @property
    def label(self) -> str:
        """See `Blob`."""
        return self.name or (self.descriptor.annotations or {}).get(ANNOTATION_TITLE) or self.descriptor.digest

    @property
    def size(self) -> int:
        """See `Blob`."""
        return self.descriptor.size

    def content(self) -> Content:
        """See `Blob`; a small one is fetched now."""
        return BytesContent(self.store.read_blob(self.descriptor, SMALL)) if self.size <= SMALL else self

    def open(self, offset: int = 0) -> Reader:
        """Open from `offset` bytes; an interrupted response is resumed."""
        return self.store.resume_blob(self.descriptor, offset)


@dataclass(frozen=True, slots=True, eq=False)
class BytesBlob:
    """A blob in memory, such as a config.

    Attributes:
        descriptor: Its descriptor.
        data: Its bytes.
    """

    descriptor: Descriptor
    data: bytes

    @property
    def label(self) -> str:
        """See `Blob`."""
        return self.descriptor.digest

    @property
    def size(self) -> int:
        """See `Blob`."""
        return len(self.data)

    @property
    def store(self) -> None:
        """See `Blob`."""
        return

    def content(self) -> Content:
        """See `Blob`."""
        return BytesContent(self.data)


class LayerBlob:
    """The blob of a layer that is in no store yet.

    Args:
        layer: The layer.

    Attributes:
        layer: The layer.
        key: Its key in the digest cache from before it was read.
        digests: Its digests, once they are known.
        descriptor: Digest and size, once they are known.
        assumed: Whether they come from the cache or an earlier manifest, so that they may be wrong.
    """

    __slots__ = ("assumed", "descriptor", "digests", "key", "layer")

    def __init__(self, layer: Layer) -> None:
        self.layer = layer
        self.key: LayerKey | None = None
        self.digests: LayerDigests | None = None
        self.descriptor: Descriptor | None = None
        self.assumed = False

    @property
    def label(self) -> str:
        """See `Blob`."""
        return self.layer.label

    @property
    def size(self) -> int:
        """Length of the blob in bytes; of its files, before that is known."""
        return self.digests.size if self.digests else self.layer.size

    @property
    def store(self) -> None:
        """See `Blob`."""
        return

    def content(self) -> Content:
        """See `Blob`."""
        return self.layer.content(self.size)

    def assume(self, digests: LayerDigests) -> Descriptor:
        """Take digests that the format promises, or that an earlier run has found."""
        self.digests = digests
        self.descriptor = Descriptor(media_type="application/octet-stream", digest=digests.digest, size=digests.size)
        return self.descriptor

    def found(self, digests: LayerDigests, cache: DigestCache) -> Descriptor:
        """Take digests that were found by reading the layer, and keep them."""
        self.assumed = False
        cache.put(self.layer, self.key, digests)
        return self.assume(digests)
