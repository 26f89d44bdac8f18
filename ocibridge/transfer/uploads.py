# SPDX-License-Identifier: Apache-2.0
"""Bringing single blobs into a store: skipped, mounted, streamed while they are hashed, or sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..errors import IntegrityError
from ..io.content import Content
from ..layers import LayerDigests, OnePass
from ..oci import Descriptor
from ..stores.base import Store
from .cache import DigestCache
from .digests import Source, rehash
from .progress import Task, reported
from .workers import Workers

UPLOADED, SKIPPED, MOUNTED = "uploaded", "skipped", "mounted"


class LayerBytes(NamedTuple):
    """Where the bytes of a layer come from.

    Attributes:
        label: What messages and progress call the layer.
        content: Its bytes.
    """

    label: str
    content: Content


class Uploads:
    """The way of blobs into one store.

    Args:
        store: Where they go.
        mount_from: Repositories of the same host that may hold them already.
        workers: In which the methods run.
        cache: Gets every digest that is found.
    """

    def __init__(self, store: Store, mount_from: Sequence[Store], workers: Workers, cache: DigestCache) -> None:
        self._store = store
        self._mount_from = mount_from
        self._workers = workers
        self._cache = cache

    def blob(self, descriptor: Descriptor, source: LayerBytes) -> str:
        """Store a blob, and say how.

        Raises:
            IntegrityError: the source has other bytes.
            StoreError: the store refused it or could not be reached.
        """
        workers = self._workers
        task = Task("uploading", source.label, descriptor.size)
        if self._store.has_blob(descriptor):
            workers.progress.finish(task, SKIPPED)
            return SKIPPED
        if any(self._store.mount_blob(descriptor, other) for other in self._mount_from):
            workers.progress.finish(task, MOUNTED)
            return MOUNTED
        with reported(workers.progress, task):
            self._send(descriptor, source, task)
        return UPLOADED

    def layer(self, source: Source) -> str:
        """Store the blob of a layer, and say how; its digests are right when this returns. See `blob`."""
        if source.digests is None:
            self._stream(source)
            return UPLOADED
        try:
            return self.blob(*_blob(source, source.digests))
        except IntegrityError:
            if not source.recalled:
                raise
        # The digest was an earlier one: the store has refused the bytes of today, which are as good.
        return self.blob(*_blob(source, rehash(source, self._cache, self._workers)))

    def _stream(self, source: Source) -> None:
        task = Task("uploading", source.layer.label, source.size)
        advance = self._workers.watch(task)
        # Only what is sent is progress; reading has to hear of the end of all work, too.
        with reported(self._workers.progress, task), OnePass(source.layer, lambda _: advance(0)) as reading:
            sent = self._store.stream_blob(reading, source.key.text if source.key else None, advance)
            digests = source.found(reading.finish(), self._cache)
            if not sent:
                self._send(*_blob(source, digests), task)

    def _send(self, descriptor: Descriptor, source: LayerBytes, task: Task) -> None:
        try:
            self._store.push_blob(descriptor, source.content, self._workers.watch(task))
        except IntegrityError as exc:
            raise IntegrityError(
                f"{source.label} does not have the bytes that were announced for it ({exc.message})",
                hint="the source is damaged or changed while it was read: check it and push again",
            ) from exc


def _blob(source: Source, digests: LayerDigests) -> tuple[Descriptor, LayerBytes]:
    descriptor = Descriptor(media_type="application/octet-stream", digest=digests.digest, size=digests.size)
    return descriptor, LayerBytes(source.layer.label, source.layer.content(digests.size))
