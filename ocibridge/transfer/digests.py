# SPDX-License-Identifier: Apache-2.0
"""Finding the digests of layers, with as little reading as possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..layers import Encoding, Layer, LayerDigests, StoredLayer, describe, promised
from .cache import DigestCache, LayerKey, layer_key
from .progress import Progress, Task, reported
from .workers import Workers


@dataclass(slots=True, eq=False)
class Source:
    """A layer of a draft, and what is known of it.

    Attributes:
        layer: The layer.
        key: Its key in the digest cache from before it was read.
        digests: Its digests, once they are known.
        recalled: Whether they come from the cache or an earlier manifest, so that they may be wrong.
    """

    layer: Layer
    key: LayerKey | None = None
    digests: LayerDigests | None = None
    recalled: bool = False

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return self.layer.size

    def found(self, digests: LayerDigests, cache: DigestCache) -> LayerDigests:
        """Take digests that were found by reading the layer, and keep them."""
        self.digests, self.recalled = digests, False
        cache.put(self.layer, self.key, digests)
        return digests


def survey(
    layers: Sequence[Layer], cache: DigestCache, known: Callable[[], Sequence[StoredLayer]]
) -> tuple[Source, ...]:
    """What can be known of layers without reading them.

    Args:
        layers: The layers.
        cache: Digests found in earlier runs.
        known: Layers that an earlier manifest names; asked for only if the cache does not have them.
    """
    sources = tuple(Source(layer) for layer in layers)
    open_questions = []
    for source in sources:
        if source.layer.promised:
            source.digests = promised(source.layer)
            continue
        source.key = layer_key(source.layer)
        source.digests = cache.get(source.layer, source.key)
        source.recalled = source.digests is not None
        if source.digests is None and _predictable(source.layer):
            open_questions.append(source)
    if open_questions:
        named = {_listing(each): each for each in known() if each.encoding is Encoding.TAR and each.files}
        for source in open_questions:
            files = tuple((file.path, file.size, file.sha256) for file in source.layer.files)
            stored = named.get(tuple(sorted(files)))
            if stored and stored.descriptor.size == source.layer.plain.size:
                digest = stored.descriptor.digest
                hashes = tuple(str(sha256) for _, _, sha256 in files)
                source.digests, source.recalled = LayerDigests(digest, stored.descriptor.size, digest, hashes), True
    return sources


def _predictable(layer: Layer) -> bool:
    """Whether paths, sizes and promised hashes of the files decide every byte of the blob."""
    return layer.encoding is Encoding.TAR and all(file.sha256 for file in layer.files)


def _listing(stored: StoredLayer) -> tuple[tuple[str, int | None, str | None], ...]:
    return tuple(sorted((file.path, file.size, file.sha256) for file in stored.files))


def hash_all(sources: Sequence[Source], cache: DigestCache, concurrency: int, progress: Progress) -> None:
    """Read every source whose digests are not known, several at once.

    Raises:
        IntegrityError: a file is not what its format promises.
        SourceError: a file cannot be read.
    """
    unread = [source for source in sources if source.digests is None]
    progress.plan("hashing", len(unread), sum(source.size for source in unread))
    workers = Workers(concurrency, progress)
    workers.map(lambda source: rehash(source, cache, workers), unread)


def rehash(source: Source, cache: DigestCache, workers: Workers) -> LayerDigests:
    """Read a source, whatever is known of it. See `hash_all`."""
    task = Task("hashing", source.layer.label, source.size)
    with reported(workers.progress, task):
        return source.found(describe(source.layer, workers.watch(task)), cache)


def describe_all(
    layers: Sequence[Layer], *, concurrency: int = 4, progress: Progress | None = None
) -> list[LayerDigests]:
    """`describe` every layer, several at once.

    Args:
        layers: The layers.
        concurrency: Layers that are read at the same time.
        progress: Told what happens.

    Raises:
        IntegrityError: a file is not what its format promises.
        SourceError: a file cannot be read.
    """
    nothing = DigestCache(None)
    sources = survey(layers, nothing, tuple)
    hash_all(sources, nothing, concurrency, progress or Progress())
    return [source.digests for source in sources if source.digests]
