# SPDX-License-Identifier: Apache-2.0
"""One repository of an image layout that holds several, under whole references as tags."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from ..io.content import Content
from ..io.readers import ByteCount, Reader, ignore_bytes
from ..oci import Descriptor
from .base import Capabilities, Store
from .imageindex import ImageLayout
from .verified import VerifiedStore


class RepositoryView(VerifiedStore):
    """The content of a layout for one repository, with its tags there.

    Args:
        layout: The layout, which whoever opened it closes.
        repository: `HOST/REPOSITORY`, or empty for tags that stand in the layout as they are.
        elsewhere: Gives a store that has a blob which the layout lacks, if there is one.
    """

    def __init__(
        self,
        layout: ImageLayout,
        repository: str,
        elsewhere: Callable[[Descriptor], Store | None] = lambda _: None,
    ) -> None:
        self.name = f"{layout.name}:{repository}" if repository else layout.name
        self.limits = layout.limits
        self.layout = layout
        self._prefix = f"{repository}:" if repository else ""
        self._elsewhere = elsewhere

    @property
    def capabilities(self) -> Capabilities:
        """Those of the layout: its blobs serve all repositories."""
        return self.layout.capabilities

    def _whole(self, version: str) -> str:
        return version if version.startswith("sha256:") else self._prefix + version

    def _read_manifest(self, version: str) -> tuple[bytes, str | None]:
        return self.layout._read_manifest(self._whole(version))

    def _open_blob(self, descriptor: Descriptor, offset: int) -> Reader:
        if not self.layout.has_blob(descriptor) and (other := self._elsewhere(descriptor)):
            return other.resume_blob(descriptor, offset)
        return self.layout._open_blob(descriptor, offset)

    def has_blob(self, descriptor: Descriptor) -> bool:
        """Return whether the layout holds the blob, for whichever repository."""
        return self.layout.has_blob(descriptor)

    def push_blob(self, descriptor: Descriptor, content: Content, on_bytes: ByteCount = ignore_bytes) -> None:
        """Store a blob in the layout, where all of its repositories share it; see `Pusher.push_blob`."""
        self.layout.push_blob(descriptor, content, on_bytes)

    def push_manifest(self, data: bytes, media_type: str, tag: str | None) -> Descriptor:
        """Store a manifest under a tag of this repository, or by digest alone."""
        return self.layout.push_manifest(data, media_type, None if tag is None else self._whole(tag))

    def batch(self) -> AbstractContextManager[None]:
        """See `Pusher.batch`."""
        return self.layout.batch()

    def tags(self) -> Sequence[str]:
        """Every tag of this repository, sorted."""
        return [tag[len(self._prefix) :] for tag in self.layout.tags() if tag.startswith(self._prefix)]

    def referrers(self, digest: str, artifact_type: str | None = None) -> Sequence[Descriptor]:
        """Manifests of the layout whose `subject` is `digest`, of whichever repository."""
        return self.layout.referrers(digest, artifact_type)
