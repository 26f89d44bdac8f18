# SPDX-License-Identifier: Apache-2.0
"""Conversion from format to format on disk, without a store."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..formats.base import StoredModel
from ..formats.registry import address_of
from ..io.content import FileContent
from ..io.existing import TargetRules
from ..model import FileEntry, Model
from ..transfer import Progress, write_model
from .dryrun import plan_target
from .existing import changes_of
from .options import ConvertOptions
from .reports import ConvertReport
from .selection import Selection
from .sources import open_source, source_of
from .targets import folders_above, target_for

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
) -> ConvertReport:
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
    with open_source(source_of(source), options, registry) as (whole, _):
        model = selection.of_source(whole)
        rules = TargetRules(options.existing, _places(source, whole), {"reference": str(source)})
        report = ConvertReport(
            source=str(source),
            source_format=whole.format,
            source_identity=whole.identity,
            target=str(dest),
            format=None,
            identity=None,
            file_count=len(model.files),
            selected_from=len(whole.files) if selection else None,
            size=sum(file.size for file in model.files),
            warnings=list(model.warnings),
        )
        if options.dry_run:
            plan = plan_target(dest, as_stored(model), options, rules)
            found = {"format": plan.format, "files": plan.files, "changes": plan.changes, "losses": list(plan.losses)}
            return report.model_copy(update={**found, "dry_run": True})
        with folders_above(dest):
            existed = os.path.lexists(dest)
            target = target_for(dest, as_stored(model), options)
            with target.sink(None, rules) as sink:
                if sink.losses and on_losses:
                    on_losses(sink.losses)
                identity = write_model(model, sink, concurrency=options.concurrency, progress=progress)
    written = {
        "format": target.kind,
        "identity": identity,
        "note": sink.note,
        "changes": changes_of(sink, existed),
        "losses": list(sink.losses),
    }
    return report.model_copy(update=written)


def as_stored(model: Model) -> StoredModel:
    """A model on disk as a sink wants to hear of it."""
    files = tuple(FileEntry(each.path, each.role, each.size, each.sha256, each.symlink) for each in model.files)
    return StoredModel(model.format, files, True, model.identity, model.info, model.origin)


def _places(source: str | os.PathLike[str], model: Model) -> tuple[Path, ...]:
    """Real paths of the source: the path, or the files of a model that has only a name."""
    if not (isinstance(source, str) and address_of(source)):
        return (Path(os.path.realpath(source)),)
    contents = (each.content for each in model.files)
    return tuple(Path(os.path.realpath(each.path)) for each in contents if isinstance(each, FileContent))
