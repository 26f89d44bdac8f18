# SPDX-License-Identifier: Apache-2.0
"""Restoring: the layers of an artifact become files in a sink."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ..errors import FormatError, IntegrityError
from ..formats.base import Sink
from ..io.content import ByteCount, Reader, chunks
from ..layers import Encoding, StoredLayer, UnpackedFile, unpack
from ..paths import check_collisions
from ..settings import DEFAULT_LIMITS, Limits
from ..stores.base import Store
from .progress import Progress, Task, reported
from .resume import Resumption
from .watched import ProgressReader
from .workers import Workers


class Restored(NamedTuple):
    """What a restoration has done.

    Attributes:
        identity: The identity of what was restored, where its format has one.
        kept: Bytes of the blobs that an interrupted restoration had left, and that were not fetched again.
    """

    identity: str | None
    kept: int


def restore(
    layers: Sequence[StoredLayer],
    store: Store,
    sink: Sink,
    *,
    phase: str = "downloading",
    concurrency: int = 4,
    progress: Progress | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Restored:
    """Stream every layer into a sink and commit it. Each blob is verified by digest, each file by the sink.

    Args:
        layers: The layers of one artifact.
        store: Where their blobs are.
        sink: Where the files go; its final name appears only when everything is right.
        phase: What progress calls it.
        concurrency: Blobs that move at the same time, where the sink allows it.
        progress: Told what happens.
        limits: See `ocibridge.settings.Limits`.

    Raises:
        IntegrityError: a blob or file is not what was promised.
        FormatError: a layer holds something that no model may hold.
        StoreError: a blob cannot be had.
    """
    progress = progress or Progress()
    workers = Workers(concurrency if sink.parallel else 1, progress, [store])
    progress.plan(phase, len(layers), sum(layer.descriptor.size for layer in layers))
    kept: list[int] = []
    order = list(enumerate(layers))
    if sink.parallel:
        order.sort(key=lambda item: -item[1].descriptor.size)

    def work(item: tuple[int, StoredLayer]) -> list[str]:
        number, layer = item
        label = layer.files[0].path if layer.files else layer.descriptor.digest
        task = Task(phase, label, layer.descriptor.size)
        if layer.encoding is Encoding.RAW and sink.has(label, layer.descriptor.size, layer.descriptor.digest[7:]):
            progress.finish(task, "skipped")
            return [label]
        with reported(progress, task):
            if sink.journal:
                resumption = Resumption(layer, sink, sink.journal, number)
                found = _resume_into(resumption, layer, store, sink, workers.watch(task), limits)
                kept.append(resumption.kept)
                return found
            with store.open_blob(layer.descriptor) as blob:
                return _take(_whole(layer, ProgressReader(blob, workers.watch(task)), limits), sink)

    paths = [path for found in workers.map(work, order) for path in found]
    check_collisions(paths, store.name)
    return Restored(sink.commit(), sum(kept))


def _whole(layer: StoredLayer, blob: Reader, limits: Limits) -> Iterator[UnpackedFile]:
    yield from unpack(layer, blob, limits)
    # A sink that stops at the declared size has not yet seen the end of the blob, where its digest is checked.
    for _ in chunks(blob):
        pass


def _take(files: Iterable[UnpackedFile], sink: Sink) -> list[str]:
    paths = []
    for file in files:
        sink.write(file.path, file.size, file.reader, file.sha256)
        paths.append(file.path)
    return paths


def _resume_into(
    resumption: Resumption, layer: StoredLayer, store: Store, sink: Sink, on_bytes: ByteCount, limits: Limits
) -> list[str]:
    """Restore a layer with what an earlier process has left of it, and with notes for a later one."""
    if not resumption.kept:
        return _take(resumption.restored(store, on_bytes, limits), sink)
    counted = 0

    def count(step: int) -> None:
        nonlocal counted
        counted += step
        on_bytes(step)

    paths: list[str] = []
    try:
        for file in resumption.restored(store, count, limits):
            paths.append(file.path)
            sink.write(file.path, file.size, file.reader, file.sha256)
        return paths
    except (FormatError, IntegrityError):
        # The disk has not kept what the journal says, as after a power cut: the layer arrives as if it were new.
        sink.release(paths)
        resumption.forget()
        on_bytes(-counted)
        return _take(resumption.restored(store, on_bytes, limits), sink)
