# SPDX-License-Identifier: Apache-2.0
"""Manifests and blobs that belong to a reference, listed without fetching a blob."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import NotFound
from ..io.content import Content
from ..io.readers import ByteCount, Reader, ignore_bytes
from ..oci import Descriptor
from ..settings import Limits
from ..stores.base import Store
from ..stores.verified import VerifiedStore
from ..transfer.graph import Graph, Node, fetch_node, node_of
from .inventory import ReferenceInventory


class ManifestRecorder(VerifiedStore):
    """A target that accepts every manifest and claims to have every blob; a copy to it transfers nothing.

    Args:
        name: A name that no other store of the run has.
        limits: See `ocibridge.settings.Limits`.

    Attributes:
        heads: Digests by tag.
    """

    def __init__(self, name: str, limits: Limits) -> None:
        self.name = name
        self.limits = limits
        self.heads: dict[str, str] = {}
        self._nodes: dict[str, Node] = {}
        self._referrers: dict[str, list[Descriptor]] = {}

    def _read_manifest(self, version: str) -> tuple[bytes, str | None]:
        node = self._nodes.get(self.heads.get(version, version))
        if node is None:
            raise NotFound(f"{self.name} has no manifest {version}")
        return node.data, node.descriptor.media_type

    def _open_blob(self, descriptor: Descriptor, offset: int) -> Reader:
        raise NotFound(f"{self.name} has no blobs")

    def head(self, version: str) -> Descriptor | None:
        """Return None, so that everything is copied."""
        return None

    def has_blob(self, descriptor: Descriptor) -> bool:
        """Return True."""
        return True

    def push_blob(self, descriptor: Descriptor, content: Content, on_bytes: ByteCount = ignore_bytes) -> None:
        """Ignore the blob."""

    def push_manifest(self, data: bytes, media_type: str, tag: str | None) -> Descriptor:
        """Record a manifest."""
        descriptor = Descriptor.of(data, media_type)
        if descriptor.digest not in self._nodes:
            node = self._nodes[descriptor.digest] = node_of(descriptor, data, self.name)
            if node.subject is not None:
                self._referrers.setdefault(node.subject.digest, []).append(descriptor)
        if tag is not None:
            self.heads[tag] = descriptor.digest
        return descriptor

    def tags(self) -> Sequence[str]:
        """All tags, sorted."""
        return sorted(self.heads)

    def referrers(self, digest: str, artifact_type: str | None = None) -> Sequence[Descriptor]:
        """The referrers of a manifest, sorted by digest."""
        return sorted(self._referrers.get(digest, ()), key=lambda each: each.digest)


@dataclass(frozen=True, slots=True)
class ReferenceContents:
    """Manifests and blobs that belong to a reference.

    Attributes:
        root: The manifest or index that the reference points to.
        nodes: All manifests: an index after its manifests, referrers after their subject.
        blobs: All blobs of these, each digest once.
    """

    root: Node
    nodes: tuple[Node, ...]
    blobs: tuple[Descriptor, ...]

    @property
    def held(self) -> ReferenceInventory:
        """The entry of an inventory."""
        return ReferenceInventory(
            digest=self.root.digest,
            manifests={each.digest: each.descriptor.size for each in self.nodes},
            blobs={each.digest: each.size for each in self.blobs},
        )


def contents_of(store: Store, version: str) -> ReferenceContents:
    """List the manifests and blobs that belong to a tag or digest, as far as `store` has them.

    Raises:
        NotFound: there is no such manifest.
        FormatError: a manifest cannot be copied.
        IntegrityError: a manifest is damaged.
    """
    root = fetch_node(store, version)
    nodes: dict[str, Node] = {}
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.digest in nodes:
            continue
        below = Graph(store, node, stop=lambda child: child.digest in nodes).nodes
        nodes.update((each.digest, each) for each in below)
        for each in below:
            waiting += [fetch_node(store, found.digest) for found in reversed(store.referrers(each.digest))]
    blobs = {blob.digest: blob for node in nodes.values() for blob in node.blobs}
    return ReferenceContents(root, tuple(nodes.values()), tuple(blobs.values()))
