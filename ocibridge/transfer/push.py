# SPDX-License-Identifier: Apache-2.0
"""Publishing: a draft becomes blobs, a config and a manifest in a store; the tag comes last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..content import BytesContent, Content
from ..errors import IntegrityError
from ..layers import Draft, Layer, LayerDigests, Sealed, describe
from ..oci import Descriptor
from ..stores.base import Store
from .progress import Progress, Task, reported
from .workers import Workers

UPLOADED, SKIPPED, MOUNTED = "uploaded", "skipped", "mounted"


@dataclass(frozen=True, slots=True)
class LayerAction:
    """What happened to one layer.

    Attributes:
        descriptor: The layer.
        action: `uploaded`, `skipped` (the store had it) or `mounted` (from another repository).
    """

    descriptor: Descriptor
    action: str


@dataclass(frozen=True, slots=True)
class LayerBytes:
    """Where the bytes of a layer come from.

    Attributes:
        label: What messages and progress call the layer.
        content: Its bytes.
    """

    label: str
    content: Content


@dataclass(frozen=True, slots=True)
class Published:
    """What a push has done.

    Attributes:
        manifest: Descriptor of the manifest.
        layers: One per layer, in manifest order.
    """

    manifest: Descriptor
    layers: tuple[LayerAction, ...]


def publish(
    draft: Draft,
    store: Store,
    tag: str | None,
    *,
    concurrency: int = 4,
    progress: Progress | None = None,
    mount_from: Sequence[Store] = (),
) -> Published:
    """Store an artifact.

    Every layer is read once to learn its digest (not even that where the format promises it), and once more if the
    store does not have it. The manifest follows all blobs, and the tag comes with it: a failure leaves no tag.

    Args:
        draft: The artifact.
        store: Where it goes.
        tag: Tag to give it; None leaves it reachable by digest alone.
        concurrency: Blobs that move at the same time.
        progress: Told what happens.
        mount_from: Repositories of the same host that may hold the blobs already.

    Raises:
        IntegrityError: a file is not what its format promises, or changed on the way.
        StoreError: the store refused something.
    """
    digests = describe_all(draft.layers, concurrency=concurrency, progress=progress)
    sealed = draft.seal(digests)
    sources = [
        LayerBytes(layer.label, layer.content(descriptor.size))
        for descriptor, layer in zip(sealed.layers, draft.layers, strict=True)
    ]
    return publish_sealed(
        sealed, sources, store, tag, concurrency=concurrency, progress=progress, mount_from=mount_from
    )


def publish_sealed(
    sealed: Sealed,
    sources: Sequence[LayerBytes],
    store: Store,
    tag: str | None,
    *,
    concurrency: int = 4,
    progress: Progress | None = None,
    mount_from: Sequence[Store] = (),
) -> Published:
    """Store an artifact whose manifest is known; the second half of `publish`.

    Args:
        sealed: The artifact.
        sources: The bytes of its layers, in manifest order; opened only for blobs that the store lacks.
        store: Where it goes.
        tag: Tag to give it; None leaves it reachable by digest alone.
        concurrency: Blobs that move at the same time.
        progress: Told what happens.
        mount_from: Repositories of the same host that may hold the blobs already.

    Raises:
        IntegrityError: a source does not have the bytes that the manifest names.
        StoreError: the store refused something.
    """
    progress = progress or Progress()
    wanted: dict[str, tuple[Descriptor, LayerBytes]] = {}
    for descriptor, source in zip(sealed.layers, sources, strict=True):
        wanted.setdefault(descriptor.digest, (descriptor, source))
    largest_first = sorted(wanted.values(), key=lambda each: (-each[0].size, each[0].digest))
    progress.plan("uploading", len(largest_first), sum(descriptor.size for descriptor, _ in largest_first))
    workers = Workers(concurrency if store.parallel else 1, progress)

    def push(item: tuple[Descriptor, LayerBytes]) -> str:
        return _push_layer(*item, store, mount_from, workers)

    actions = dict(
        zip((descriptor.digest for descriptor, _ in largest_first), workers.map(push, largest_first), strict=True)
    )
    if not store.has_blob(sealed.config_descriptor):
        store.push_blob(sealed.config_descriptor, BytesContent(sealed.config))
    manifest = store.push_manifest(sealed.manifest, sealed.media_type, tag)
    return Published(manifest, tuple(LayerAction(each, actions[each.digest]) for each in sealed.layers))


def describe_all(
    layers: Sequence[Layer], *, concurrency: int = 4, progress: Progress | None = None
) -> list[LayerDigests]:
    """`describe` every layer, several at once; the first half of `publish`.

    Args:
        layers: The layers.
        concurrency: Layers that are read at the same time.
        progress: Told what happens.

    Raises:
        IntegrityError: a file is not what its format promises.
        SourceError: a file cannot be read.
    """
    workers = Workers(concurrency, progress or Progress())
    unread = [layer for layer in layers if not layer.promised]
    workers.progress.plan("hashing", len(unread), sum(_size(layer) for layer in unread))

    def work(layer: Layer) -> LayerDigests:
        if layer.promised:
            return describe(layer)
        task = Task("hashing", layer.label, _size(layer))
        with reported(workers.progress, task):
            return describe(layer, workers.watch(task))

    return workers.map(work, layers)


def _size(layer: Layer) -> int:
    return sum(file.size for file in layer.files)


def _push_layer(
    descriptor: Descriptor, source: LayerBytes, store: Store, mount_from: Sequence[Store], workers: Workers
) -> str:
    task = Task("uploading", source.label, descriptor.size)
    if store.has_blob(descriptor):
        workers.progress.finish(task, SKIPPED)
        return SKIPPED
    if any(store.mount_blob(descriptor, other) for other in mount_from):
        workers.progress.finish(task, MOUNTED)
        return MOUNTED
    with reported(workers.progress, task):
        try:
            store.push_blob(descriptor, source.content, workers.watch(task))
        except IntegrityError as exc:
            raise IntegrityError(
                f"{source.label} does not have the bytes that were announced for it ({exc.message})",
                hint="the source is damaged or changed while it was read: check it and push again",
            ) from exc
    return UPLOADED
