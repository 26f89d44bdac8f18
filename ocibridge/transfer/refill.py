# SPDX-License-Identifier: Apache-2.0
"""From one box to another, without a store between: the files of a model go straight into a sink."""

from __future__ import annotations

from ..formats.base import Sink
from ..io.content import Reader, chunks
from ..model import Model, ModelFile
from ..oci import Descriptor
from ..stores.verified import VerifiedReader
from .progress import Progress, Task, reported
from .watched import ProgressReader
from .workers import Workers


def refill(model: Model, sink: Sink, *, concurrency: int = 4, progress: Progress | None = None) -> str | None:
    """Write every file of a model into a sink and commit it.

    Args:
        model: The model; a file whose format promises a sha256 is held to it.
        sink: Where the files go.
        concurrency: Files that move at the same time, where the sink allows it.
        progress: Told what happens.

    Returns:
        The identity of what was written, where its format has one.

    Raises:
        IntegrityError: a file is not what its format promises.
        DestinationError: the target cannot be written.
    """
    progress = progress or Progress()
    workers = Workers(concurrency if sink.parallel else 1, progress)
    progress.plan("converting", len(model.files), sum(file.size for file in model.files))
    order = sorted(model.files, key=lambda file: -file.size) if sink.parallel else model.files

    def work(file: ModelFile) -> None:
        task = Task("converting", file.path, file.size)
        if file.sha256 and sink.has(file.path, file.size, file.sha256):
            progress.finish(task, "skipped")
            return
        with reported(progress, task), _verified(file) as reader:
            sink.write(file.path, file.size, ProgressReader(reader, workers.watch(task)), file.sha256)
            # A sink that stops at the declared size has not yet seen the end, where the sha256 is checked.
            for _ in chunks(reader):
                pass

    workers.map(work, order)
    return sink.commit()


def _verified(file: ModelFile) -> Reader:
    reader = file.content.open()
    if not file.sha256:
        return reader
    promised = Descriptor(media_type="application/octet-stream", digest=f"sha256:{file.sha256}", size=file.size)
    return VerifiedReader(reader, promised, f"the file {file.path}")
