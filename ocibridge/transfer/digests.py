# SPDX-License-Identifier: Apache-2.0
"""Finding the digests of layers, with as little reading as possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..layers import Encoding, Layer, LayerDigests, StoredLayer, describe, promised
from ..oci import Descriptor
from .blobs import LayerBlob
from .cache import DigestCache, layer_key
from .progress import Progress, Task, reported
from .workers import Workers


def look_up_digests(blobs: Sequence[LayerBlob], cache: DigestCache, known: Callable[[], Sequence[StoredLayer]]) -> None:
    """Find what can be known of layers without reading them.

    Args:
        blobs: The layers.
        cache: Digests found in earlier runs.
        known: Layers that an earlier manifest names; asked for only if the cache does not have them.
    """
    unknown = []
    for blob in blobs:
        if blob.layer.promised:
            blob.assume(promised(blob.layer))
            continue
        blob.key = layer_key(blob.layer)
        if cached := cache.get(blob.layer, blob.key):
            blob.assume(cached)
            blob.assumed = True
        elif _predictable(blob.layer):
            unknown.append(blob)
    if not unknown:
        return
    named = {_listing(each): each for each in known() if each.encoding is Encoding.TAR and each.files}
    for blob in unknown:
        files = tuple((file.path, file.size, file.sha256) for file in blob.layer.files)
        stored = named.get(tuple(sorted(files)))
        if stored and stored.descriptor.size == blob.layer.plain.size:
            digest = stored.descriptor.digest
            hashes = tuple(str(sha256) for _, _, sha256 in files)
            blob.assume(LayerDigests(digest, stored.descriptor.size, digest, hashes))
            blob.assumed = True


def _predictable(layer: Layer) -> bool:
    """Return whether paths, sizes and promised hashes of the files decide every byte of the blob."""
    return layer.encoding is Encoding.TAR and all(file.sha256 for file in layer.files)


def _listing(stored: StoredLayer) -> tuple[tuple[str, int | None, str | None], ...]:
    return tuple(sorted((file.path, file.size, file.sha256) for file in stored.files))


def hash_layers(blobs: Sequence[LayerBlob], cache: DigestCache, concurrency: int, progress: Progress) -> None:
    """Read every layer whose digests are not known, several at once.

    Raises:
        IntegrityError: a file is not what its format promises.
        SourceError: a file cannot be read.
    """
    unread = [blob for blob in blobs if blob.digests is None]
    progress.plan("hashing", len(unread), sum(blob.size for blob in unread))
    workers = Workers(concurrency, progress)
    workers.map(lambda blob: hash_layer(blob, cache, workers), unread)


def hash_layer(blob: LayerBlob, cache: DigestCache, workers: Workers) -> Descriptor:
    """Read a layer, whatever is known of it. See `hash_layers`."""
    task = Task("hashing", blob.label, blob.layer.size)
    with reported(workers.progress, task):
        return blob.found(describe(blob.layer, workers.watch(task)), cache)
