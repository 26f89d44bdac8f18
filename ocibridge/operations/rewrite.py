# SPDX-License-Identifier: Apache-2.0
"""Conversion from format to format on disk, without a store."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..formats.base import StoredModel
from ..model import FileEntry, Model
from ..transfer import Progress, write_model
from .options import ConvertOptions
from .reports import RewriteReport
from .selection import Selection
from .sources import open_source, source_of
from .targets import folders_above, sink_for

if TYPE_CHECKING:
    from ..stores.registry import RegistryOptions


def rewrite(
    source: str | os.PathLike[str],
    dest: str | os.PathLike[str],
    options: ConvertOptions = ConvertOptions(),
    *,
    on_losses: Callable[[Sequence[str]], None] | None = None,
    registry: RegistryOptions | None = None,
    progress: Progress | None = None,
) -> RewriteReport:
    """Write a model on disk in another format; see `convert`, which calls this.

    Args:
        source: As for `push`.
        dest: As for `pull`.
        options: How the source is read, and what is written.
        on_losses: See `pull`.
        registry: For a source in a registry that speaks Ollama's dialect.
        progress: Receives progress events.

    Raises:
        OcibridgeError: as for `push` and `pull`.
    """
    selection = Selection(options)
    with open_source(source_of(source), options, registry) as (whole, _), folders_above(dest):
        model = selection.of_source(whole)
        kind, sink = sink_for(dest, as_stored(model), options)
        with sink:
            if sink.losses and on_losses:
                on_losses(sink.losses)
            identity = write_model(model, sink, concurrency=options.concurrency, progress=progress)
    return RewriteReport(
        source=str(source),
        source_format=whole.format,
        source_identity=whole.identity,
        path=str(dest),
        format=kind,
        identity=identity,
        files=len(model.files),
        selected_from=len(whole.files) if selection else None,
        size=sum(file.size for file in model.files),
        note=sink.note,
        losses=list(sink.losses),
        warnings=list(model.warnings),
    )


def as_stored(model: Model) -> StoredModel:
    """A model on disk as a sink wants to hear of it."""
    files = tuple(FileEntry(each.path, each.role, each.size, each.sha256, each.symlink) for each in model.files)
    return StoredModel(model.format, files, True, model.identity, model.info, model.origin)
