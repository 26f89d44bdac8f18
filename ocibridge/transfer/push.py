# SPDX-License-Identifier: Apache-2.0
"""Publishing: a draft becomes blobs, a config and a manifest in a store; the tag comes last."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ..io.content import BytesContent
from ..layers import BuiltManifest, Layer, LayerDigests, ManifestPlan, StoredLayer
from ..oci import Descriptor
from ..settings import SMALL_FILE
from ..stores.base import Store
from .cache import DigestCache
from .digests import Source, hash_all, survey
from .progress import Progress
from .uploads import LayerBytes, Uploads
from .workers import Workers


class LayerAction(NamedTuple):
    """What happened to one layer.

    Attributes:
        descriptor: The layer.
        action: `uploaded`, `skipped` (the store had it) or `mounted` (from another repository).
    """

    descriptor: Descriptor
    action: str


class Published(NamedTuple):
    """What a push has done.

    Attributes:
        manifest: Descriptor of the manifest.
        layers: One per layer, in manifest order.
    """

    manifest: Descriptor
    layers: tuple[LayerAction, ...]


def publish(
    draft: ManifestPlan,
    store: Store,
    tag: str | None,
    *,
    concurrency: int = 4,
    progress: Progress | None = None,
    mount_from: Sequence[Store] = (),
    cache: DigestCache | None = None,
    known: Callable[[], Sequence[StoredLayer]] = tuple,
) -> Published:
    """Store an artifact.

    A layer is read only if its digest is neither promised by the format nor in the cache nor in an earlier manifest, or
    if the store does not have it. Where both is so, one read does for both if the store can take a blob without its
    digest. The manifest follows all blobs, and the tag comes with it: a failure leaves no tag.

    Args:
        draft: The artifact.
        store: Where it goes.
        tag: Tag to give it; None leaves it reachable by digest alone.
        concurrency: Blobs that move at the same time.
        progress: Told what happens.
        mount_from: Repositories of the same host that may hold the blobs already.
        cache: Digests found in earlier runs. Each digest that is found is kept at once.
        known: Gives the layers that an earlier manifest names. Asked for at most once.

    Raises:
        IntegrityError: a file is not what its format promises, or changed on the way.
        StoreError: the store refused something.
    """
    progress, cache = progress or Progress(), cache or DigestCache(None)
    sources = survey(draft.layers, cache, known)
    streamed = _to_stream(sources, store, mount_from)
    hash_all([source for source in sources if source not in streamed], cache, concurrency, progress)
    expected = [source.digests or _blank(source.layer) for source in sources]
    # What no manifest can say is refused before anything moves.
    sealed = draft.seal(expected)
    workers = Workers(concurrency if store.capabilities.parallel else 1, progress, [store])
    uploads = Uploads(store, mount_from, workers, cache)

    def push(group: list[Source]) -> str:
        before, action = group[0].digests, uploads.layer(group[0])
        if group[0].digests != before:
            for other in group[1:]:
                uploads.layer(other)
        return action

    groups: dict[object, list[Source]] = {}
    for number, source in enumerate(sources):
        groups.setdefault(source.digests.digest if source.digests else number, []).append(source)
    order = sorted(groups.values(), key=lambda group: -_size(group[0]))
    progress.plan("uploading", len(order), sum(_size(group[0]) for group in order))
    done = workers.map(push, order)
    digests = [source.digests or _blank(source.layer) for source in sources]
    if digests != expected:
        sealed = draft.seal(digests)
    actions = {
        source.digests.digest: action
        for group, action in zip(order, done, strict=True)
        for source in group
        if source.digests
    }
    return _finish(sealed, actions, store, tag)


def _to_stream(sources: Sequence[Source], store: Store, mount_from: Sequence[Store]) -> list[Source]:
    """The sources that are sent while they are hashed; small ones are read twice before that would gain anything."""
    unread = [source for source in sources if source.digests is None and source.size >= SMALL_FILE]
    return unread if unread and not mount_from and store.capabilities.streams and store.is_new() else []


def _blank(layer: Layer) -> LayerDigests:
    """Stands for digests that are not known yet."""
    return LayerDigests(f"sha256:{'0' * 64}", layer.plain.size, f"sha256:{'0' * 64}", ())


def _size(source: Source) -> int:
    return source.digests.size if source.digests else source.size


def publish_sealed(
    sealed: BuiltManifest,
    sources: Sequence[LayerBytes],
    store: Store,
    tag: str | None,
    *,
    concurrency: int = 4,
    progress: Progress | None = None,
    mount_from: Sequence[Store] = (),
) -> Published:
    """Store an artifact whose manifest is known.

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
    wanted: dict[str, tuple[Descriptor, LayerBytes]] = {}
    for descriptor, source in zip(sealed.layers, sources, strict=True):
        wanted.setdefault(descriptor.digest, (descriptor, source))
    order = sorted(wanted.values(), key=lambda each: (-each[0].size, each[0].digest))
    progress = progress or Progress()
    progress.plan("uploading", len(order), sum(descriptor.size for descriptor, _ in order))
    workers = Workers(concurrency if store.capabilities.parallel else 1, progress, [store])
    uploads = Uploads(store, mount_from, workers, DigestCache(None))
    done = workers.map(lambda item: uploads.blob(*item), order)
    actions = {descriptor.digest: action for (descriptor, _), action in zip(order, done, strict=True)}
    return _finish(sealed, actions, store, tag)


def _finish(sealed: BuiltManifest, actions: Mapping[str, str], store: Store, tag: str | None) -> Published:
    """The end of every push: the config, then the manifest with its tag."""
    if not store.has_blob(sealed.config_descriptor):
        store.push_blob(sealed.config_descriptor, BytesContent(sealed.config))
    manifest = store.push_manifest(sealed.manifest, sealed.media_type, tag)
    return Published(manifest, tuple(LayerAction(each, actions[each.digest]) for each in sealed.layers))
