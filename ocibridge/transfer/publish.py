# SPDX-License-Identifier: Apache-2.0
"""Pushing what is not stored yet: a manifest plan becomes blobs, configs and manifests; the tag comes last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from .. import settings
from ..layers import BuiltManifest, Layer, LayerDigests, ManifestPlan, StoredLayer
from ..oci import Descriptor
from ..settings import SMALL_FILE
from ..stores.base import Store
from .blobs import Blob, BytesBlob, LayerBlob, StoredBlob
from .cache import DigestCache
from .digests import hash_layers, look_up_digests
from .engine import CopyEngine
from .progress import Progress
from .session import CopySession

_PHASE = "uploading"


class LayerAction(NamedTuple):
    """Action for one layer.

    Attributes:
        descriptor: The layer.
        action: `copied`, `present` (the target had it) or `mounted` (from another repository).
    """

    descriptor: Descriptor
    action: str


class Published(NamedTuple):
    """Result of a push.

    Attributes:
        manifest: Descriptor of the manifest or index.
        layers: One per layer, in the order of the plan.
    """

    manifest: Descriptor
    layers: tuple[LayerAction, ...]


def publish(
    plan: ManifestPlan,
    target: Store,
    tag: str | None,
    *,
    source: Store | None = None,
    session: CopySession | None = None,
    concurrency: int = settings.CONCURRENCY,
    progress: Progress | None = None,
    mount_from: Sequence[Store] = (),
    cache: DigestCache | None = None,
    known: Callable[[], Sequence[StoredLayer]] = tuple,
) -> Published:
    """Store an artifact.

    A layer is read only if its digest is neither promised by the format nor in the cache nor in an earlier manifest, or
    if the target does not have it. Where both is so, one read does for both if the target can take a blob without its
    digest. The manifest follows all blobs, and the tag comes with it: a failure leaves no tag.

    Args:
        plan: The artifact.
        target: Where it goes.
        tag: Tag to give it; None leaves it reachable by digest alone.
        source: Where the layers of the plan are that are stored.
        session: What is known in this run; None is a run of its own.
        concurrency: Blobs that move at the same time.
        progress: Receives progress events.
        mount_from: Repositories of the same host that may hold the blobs already.
        cache: Digests found in earlier runs. Each digest that is found is kept at once.
        known: Gives the layers that an earlier manifest names. Asked for at most once.

    Raises:
        IntegrityError: a file is not what its format promises, or a source has other bytes than a digest promises.
        SourceError: a file cannot be read, or changed while it was read.
        StoreError: a store refused something, or could not be reached.
    """
    session, progress, cache = session or CopySession(), progress or Progress(), cache or DigestCache(None)
    blobs = [_blob(each, source) for each in plan.layers]
    layers = [each for each in blobs if isinstance(each, LayerBlob)]
    look_up_digests(layers, cache, known)
    # Small layers are read twice before streaming them would gain anything.
    large = [each for each in layers if each.digests is None and each.size >= SMALL_FILE]
    stream = bool(large) and not mount_from and session.may_stream(target)
    hash_layers([each for each in layers if not (stream and each in large)], cache, concurrency, progress)
    expected = _digests(layers)
    # What no manifest can say is refused before anything moves.
    built = plan.build(expected)
    engine = CopyEngine(
        target,
        session,
        _PHASE,
        progress=progress,
        concurrency=concurrency,
        sources=() if source is None else (source,),
        mount_from=mount_from,
        cache=cache,
    )
    with session.exclusive(target), session.running_copy(), target.batch():
        actions = engine.copy(blobs)
        digests = _digests(layers)
        if digests != expected:
            built = plan.build(digests)
        manifest = _push(built, blobs, target, tag, engine, session)
    happened = tuple(LayerAction(each, action) for each, action in zip(built.layers, actions, strict=True))
    return Published(manifest, happened)


def _blob(layer: Layer | StoredLayer, source: Store | None) -> Blob:
    if isinstance(layer, Layer):
        return LayerBlob(layer)
    assert source is not None
    return StoredBlob(source, layer.descriptor, layer.files[0].path if len(layer.files) == 1 else "")


def _digests(layers: Sequence[LayerBlob]) -> list[LayerDigests]:
    """The digests of layers; for those that were not read yet, something that is as long."""
    zeros = f"sha256:{'0' * 64}"
    return [each.digests or LayerDigests(zeros, each.layer.plain.size, zeros, ()) for each in layers]


def _push(
    built: BuiltManifest,
    blobs: Sequence[Blob],
    target: Store,
    tag: str | None,
    engine: CopyEngine,
    session: CopySession,
) -> Descriptor:
    """Push configs, then manifests, then the root with its tag."""
    root = built.descriptor
    configs = [
        BytesBlob(each.config_descriptor, each.config) for each in (*built.children, built) if each.config_descriptor
    ]

    def push() -> None:
        engine.copy_quietly(configs)
        for each in built.children:
            engine.push_manifest(each.descriptor, each.manifest, each.subject, None)
        engine.push_manifest(root, built.manifest, built.subject, tag)

    def repair() -> None:
        named = [*(each.descriptor for each in (*blobs, *configs)), *(each.descriptor for each in built.children)]
        session.forget(target, [each.digest for each in named if each])
        engine.copy(blobs, full=True)

    engine.push_repairing(push, repair)
    return root
