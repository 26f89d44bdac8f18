# SPDX-License-Identifier: Apache-2.0
"""Restoring: the layers of an artifact become files in a sink."""

from __future__ import annotations

import io
from collections.abc import Sequence

from ..content import Reader, chunks, writable
from ..formats.base import Sink
from ..layers import Encoding, StoredLayer, unpack
from ..model import ByteCount
from ..paths import check_collisions
from ..settings import DEFAULT_LIMITS, Limits
from ..stores.base import Store
from .progress import Progress, Task, reported
from .workers import Workers


def restore(
    layers: Sequence[StoredLayer],
    store: Store,
    sink: Sink,
    *,
    phase: str = "downloading",
    concurrency: int = 4,
    progress: Progress | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> str | None:
    """Stream every layer into a sink and commit it. Each blob is verified by digest, each file by the sink.

    Args:
        layers: The layers of one artifact.
        store: Where their blobs are.
        sink: Where the files go; its final name appears only when everything is right.
        phase: What progress calls it.
        concurrency: Blobs that move at the same time, where the sink allows it.
        progress: Told what happens.
        limits: See `ocibridge.settings.Limits`.

    Returns:
        The identity of what was restored, where its format has one.

    Raises:
        IntegrityError: a blob or file is not what was promised.
        FormatError: a layer holds something that no model may hold.
        StoreError: a blob cannot be had.
    """
    progress = progress or Progress()
    workers = Workers(concurrency if sink.parallel else 1, progress)
    progress.plan(phase, len(layers), sum(layer.descriptor.size for layer in layers))
    order = sorted(layers, key=lambda layer: -layer.descriptor.size) if sink.parallel else layers

    def work(layer: StoredLayer) -> list[str]:
        label = layer.files[0].path if layer.files else layer.descriptor.digest
        task = Task(phase, label, layer.descriptor.size)
        if layer.encoding is Encoding.RAW and sink.has(label, layer.descriptor.size, layer.descriptor.digest[7:]):
            progress.finish(task, "skipped")
            return [label]
        with reported(progress, task), store.open_blob(layer.descriptor) as blob:
            return _unpack_into(layer, Watched(blob, workers.watch(task)), sink, limits)

    paths = [path for found in workers.map(work, order) for path in found]
    check_collisions(paths, store.name)
    return sink.commit()


def _unpack_into(layer: StoredLayer, blob: Reader, sink: Sink, limits: Limits) -> list[str]:
    paths = []
    for file in unpack(layer, blob, limits):
        sink.write(file.path, file.size, file.reader, file.sha256)
        paths.append(file.path)
    # A sink that stops at the declared size has not yet seen the end of the blob, where its digest is checked.
    for _ in chunks(blob):
        pass
    return paths


class Watched(io.RawIOBase):
    """A reader that tells how much was read of it; closing it leaves the source open."""

    def __init__(self, reader: Reader, on_bytes: ByteCount) -> None:
        self._reader = reader
        self._on_bytes = on_bytes

    def readable(self) -> bool:
        """Always true."""
        return True

    def readinto(self, buffer: object, /) -> int:
        """Fill `buffer`, and report."""
        count = self._reader.readinto(writable(buffer)) or 0
        self._on_bytes(count)
        return count
