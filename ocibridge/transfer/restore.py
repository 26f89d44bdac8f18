# SPDX-License-Identifier: Apache-2.0
"""Reading into a sink: the layers of an artifact, or the files of a model that is in no store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from .. import settings
from ..errors import FormatError, IntegrityError
from ..formats.base import Sink
from ..io.readers import ByteCount, ProgressReader, Reader, drain
from ..layers import StoredLayer, UnpackedFile, unpack
from ..model import Model, ModelFile
from ..oci import Descriptor
from ..paths import check_collisions
from ..settings import DEFAULT_LIMITS, Limits
from ..stores.base import Store
from ..stores.verified import VerifiedReader
from .progress import Progress, Task, reported
from .resume import LayerResume
from .workers import Workers

_Source = TypeVar("_Source")


class Restored(NamedTuple):
    """Result of a restore.

    Attributes:
        identity: The identity of what was restored, where its format has one.
        files: Number of files that were written.
        kept: Bytes of the blobs that an interrupted restoration had left, and that were not fetched again.
    """

    identity: str | None
    files: int
    kept: int


class _Item(NamedTuple):
    """A blob or a file that is read into a sink.

    Attributes:
        label: What progress calls it; its path, where it is a single file.
        size: Bytes that are read.
        files: Path, size and hex sha256 of each of its files, by which the sink may have them already; empty where they
            are not known.
        read: Reads it into the sink, tells how many bytes were read, and gives the paths of its files.
    """

    label: str
    size: int
    files: Sequence[tuple[str, int, str]]
    read: Callable[[ByteCount], list[str]]


def restore(
    layers: Sequence[StoredLayer],
    store: Store,
    sink: Sink,
    *,
    phase: str = "downloading",
    concurrency: int = settings.CONCURRENCY,
    progress: Progress | None = None,
    limits: Limits = DEFAULT_LIMITS,
    wanted: Callable[[str], bool] | None = None,
) -> Restored:
    """Read every layer into a sink and commit it. Each blob is verified by digest, each file by the sink.

    Args:
        layers: The layers of one artifact.
        store: Where their blobs are.
        sink: Where the files go; its final name appears only when everything is right.
        phase: What progress calls it.
        concurrency: Blobs that move at the same time, where the sink allows it.
        progress: Receives progress events.
        limits: See `ocibridge.settings.Limits`.
        wanted: Selects files by path; of the others, which share a layer with these, nothing is written.

    Raises:
        IntegrityError: a blob or file is not what was promised.
        FormatError: a layer holds something that no model may hold.
        StoreError: a blob cannot be had.
    """
    kept: list[int] = []

    def item(source: tuple[int, StoredLayer]) -> _Item:
        number, layer = source

        def read(on_bytes: ByteCount) -> list[str]:
            if sink.journal:
                resume = LayerResume(layer, sink, sink.journal, number)
                paths = _resume(resume, store, sink, on_bytes, limits, wanted)
                kept.append(resume.kept)
                return paths
            with store.open_blob(layer.descriptor) as blob:
                source = ProgressReader(blob, on_bytes)
                return _write(unpack(layer, source, limits), source, sink, wanted)

        label = layer.files[0].path if layer.files else layer.descriptor.digest
        known = [(each.path, each.size, each.sha256) for each in layer.files if each.size is not None and each.sha256]
        files = [each for each in known if wanted is None or wanted(each[0])] if len(known) == len(layer.files) else []
        return _Item(label, layer.descriptor.size, files, read)

    paths = _read_all(
        list(enumerate(layers)), lambda each: each[1].descriptor.size, item, sink, phase, concurrency, progress, [store]
    )
    check_collisions(paths, store.name)
    return Restored(sink.commit(), len(paths), sum(kept))


def write_model(
    model: Model, sink: Sink, *, concurrency: int = settings.CONCURRENCY, progress: Progress | None = None
) -> str | None:
    """Read every file of a model into a sink and commit it; no store is between.

    Args:
        model: The model; a file whose format promises a sha256 is held to it.
        sink: Where the files go.
        concurrency: Files that move at the same time, where the sink allows it.
        progress: Receives progress events.

    Returns:
        The identity of what was written, where its format has one.

    Raises:
        IntegrityError: a file is not what its format promises.
        DestinationError: the target cannot be written.
    """

    def item(file: ModelFile) -> _Item:
        def read(on_bytes: ByteCount) -> list[str]:
            with open_verified(file) as reader:
                source = ProgressReader(reader, on_bytes)
                return _write([UnpackedFile(file.path, file.size, source, file.sha256)], source, sink)

        files = [(file.path, file.size, file.sha256)] if file.sha256 else []
        return _Item(file.path, file.size, files, read)

    _read_all(model.files, lambda file: file.size, item, sink, "converting", concurrency, progress)
    return sink.commit()


def _read_all(
    sources: Sequence[_Source],
    size_of: Callable[[_Source], int],
    item_of: Callable[[_Source], _Item],
    sink: Sink,
    phase: str,
    concurrency: int,
    progress: Progress | None,
    stores: Sequence[Store] = (),
) -> list[str]:
    """Read items into a sink, several at once where it allows that; the paths of all files.

    An item is made when its turn comes: there may be very many.
    """
    progress = progress or Progress()
    workers = Workers(concurrency if sink.parallel else 1, progress, stores)
    progress.plan(phase, len(sources), sum(map(size_of, sources)))

    def work(source: _Source) -> list[str]:
        item = item_of(source)
        task = Task(phase, item.label, item.size)
        if item.files and _has_all(sink, item.files):
            progress.finish(task, "skipped")
            return [path for path, _, _ in item.files]
        with reported(progress, task):
            return item.read(workers.watch(task))

    order = sorted(sources, key=size_of, reverse=True) if sink.parallel else sources
    return [path for paths in workers.map(work, order) for path in paths]


def _has_all(sink: Sink, files: Sequence[tuple[str, int, str]]) -> bool:
    """Return whether the sink has all files of a layer; where it has some of them only, they arrive all the same."""
    for number, file in enumerate(files):
        if not sink.has(*file):
            sink.discard([path for path, _, _ in files[:number]])
            return False
    return True


def _write(
    files: Iterable[UnpackedFile], source: Reader, sink: Sink, wanted: Callable[[str], bool] | None = None
) -> list[str]:
    """Write files, and read `source`, where they come from, to its end: there its digest is checked."""
    paths = []
    for file in _selected(files, wanted):
        sink.write(file.path, file.size, file.reader, file.sha256)
        paths.append(file.path)
    drain(source)
    return paths


def _selected(files: Iterable[UnpackedFile], wanted: Callable[[str], bool] | None) -> Iterator[UnpackedFile]:
    """Files that are wanted; the others are read, as their bytes are part of the digest of their layer."""
    for file in files:
        if wanted is None or wanted(file.path):
            yield file
        else:
            drain(file.reader)


def open_verified(file: ModelFile) -> Reader:
    """A file from its start, which fails at its end if its sha256 is known and another one."""
    reader = file.content.open()
    if not file.sha256:
        return reader
    promised = Descriptor(media_type="application/octet-stream", digest=f"sha256:{file.sha256}", size=file.size)
    return VerifiedReader(reader, promised, f"the file {file.path}")


def _resume(
    resume: LayerResume,
    store: Store,
    sink: Sink,
    on_bytes: ByteCount,
    limits: Limits,
    wanted: Callable[[str], bool] | None,
) -> list[str]:
    """Read a layer with what an earlier process has left of it, and with notes for a later one."""
    paths: list[str] = []
    counted = 0

    def count(step: int) -> None:
        nonlocal counted
        counted += step
        on_bytes(step)

    def read() -> list[str]:
        for file in _selected(resume.files_of(store, count, limits), wanted):
            paths.append(file.path)
            sink.write(file.path, file.size, file.reader, file.sha256)
        return paths

    try:
        return read()
    except (FormatError, IntegrityError):
        if not resume.kept:
            raise
    # The disk has not kept what the journal says, as after a power cut: the layer is read as if it were new.
    sink.discard(paths)
    resume.forget()
    paths.clear()
    on_bytes(-counted)
    return read()
