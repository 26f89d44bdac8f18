# SPDX-License-Identifier: Apache-2.0
"""From one box on disk to another, without a store between."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .. import settings
from ..formats.base import ReadOptions, Runner, StoredModel
from ..model import FileEntry, Model
from ..transfer import Progress, refill
from .reports import RewriteReport
from .sources import open_source, source_of
from .targets import sink_for, write_options

if TYPE_CHECKING:
    from ..stores.registry import RegistryOptions


def rewrite(
    source: str | os.PathLike[str],
    dest: str | os.PathLike[str],
    *,
    as_format: str | None = None,
    zip_method: str = "stored",
    force: bool = False,
    runner: Runner | None = None,
    hooks: str | os.PathLike[str] | None = None,
    on_losses: Callable[[Sequence[str]], None] | None = None,
    reading: ReadOptions | None = None,
    registry: RegistryOptions | None = None,
    concurrency: int = settings.CONCURRENCY,
    progress: Progress | None = None,
) -> RewriteReport:
    """Write the model in one box as another box; see `convert`, which calls this.

    Args:
        source: As for `push`.
        dest: As for `pull`; so are the other arguments.
        as_format: See `pull`.
        zip_method: See `pull`.
        force: See `pull`.
        runner: See `pull`.
        hooks: See `pull`.
        on_losses: See `pull`.
        reading: How the source is read.
        registry: For a source in a registry that speaks Ollama's dialect.
        concurrency: Files that move at the same time.
        progress: Told what happens.

    Raises:
        OcibridgeError: as for `push` and `pull`.
    """
    options = write_options(zip_method, force, runner, hooks)
    with open_source(source_of(source), reading or ReadOptions(), registry) as (model, _):
        kind, sink = sink_for(dest, as_format, as_stored(model), options)
        with sink:
            if sink.losses and on_losses:
                on_losses(sink.losses)
            identity = refill(model, sink, concurrency=concurrency, progress=progress)
    return RewriteReport(
        source=str(source),
        source_format=model.format,
        source_identity=model.identity,
        path=str(dest),
        format=kind,
        identity=identity,
        files=len(model.files),
        size=sum(file.size for file in model.files),
        note=sink.note,
        losses=list(sink.losses),
        warnings=list(model.warnings),
    )


def as_stored(model: Model) -> StoredModel:
    """A model on disk as a sink wants to hear of it."""
    files = tuple(FileEntry(each.path, each.role, each.size, each.sha256, each.symlink) for each in model.files)
    return StoredModel(model.format, files, True, model.identity, model.info, model.origin)
