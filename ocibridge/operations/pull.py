# SPDX-License-Identifier: Apache-2.0
"""`pull`: an artifact in a store becomes a model on disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from .. import settings
from ..errors import UsageError
from ..formats.base import Runner, StoredModel
from ..layers import StoredLayer
from ..oci import Reference, parse_reference, sha256_digest
from ..stores.opening import open_store
from ..transfer import Progress, restore
from .artifacts import fetch_artifact
from .pulled import PullReport
from .sources import OLLAMA
from .targets import format_for, sink_for, write_options

if TYPE_CHECKING:
    from ..stores.registry import RegistryOptions


def pull(
    source: str | Reference,
    dest: str | os.PathLike[str],
    *,
    as_format: str | None = None,
    zip_method: str = "stored",
    thin: bool = False,
    force: bool = False,
    runner: Runner | None = None,
    hooks: str | os.PathLike[str] | None = None,
    on_losses: Callable[[Sequence[str]], None] | None = None,
    registry: RegistryOptions | None = None,
    concurrency: int = settings.CONCURRENCY,
    progress: Progress | None = None,
) -> PullReport:
    """Restore a model from an artifact.

    Args:
        source: A reference: `HOST[:PORT]/REPOSITORY[:TAG|@DIGEST]`, `oci:DIR[:TAG]` or `oci-archive:FILE[:TAG]`.
        dest: Where to write. `x.carton` and `x.mlarchive` become archives, any other name a folder. `ollama:NAME[:TAG]`
            is a model in the local Ollama store; blobs that the store has already do not move.
        as_format: `carton`, `mlarchive` or `folder`, whatever the name says.
        zip_method: How members of a carton are compressed: `stored`, `deflate` or `zstd`.
        thin: Whether the large files of a carton stay in the registry and are only linked (its LINKS); for cartons
            in `raw-files` layers, in a registry that asks nobody for a login.
        force: Whether an existing target is replaced.
        runner: Makes a carton of a model that was none, for this runner.
        hooks: Folder with the hooks of an MLSteam archive that is made of a model that was none.
        on_losses: Told what the target cannot express, before anything is written; the report has it too.
        registry: Credentials and TLS.
        concurrency: Blobs that move at the same time.
        progress: Told what happens.

    Returns:
        What was written, and its identity, proven from the bytes that were written.

    Raises:
        UsageError: the arguments do not fit together.
        NotFound: there is nothing of that name.
        FormatError: it is no model, or not one that can be written so.
        IntegrityError: a byte is not what was promised.
        DestinationError: the target exists, or cannot be written.
    """
    reference = parse_reference(source) if isinstance(source, str) else source
    options = write_options(zip_method, force, runner, hooks)
    warnings = []
    with open_store(reference, registry) as store:
        fetched = fetch_artifact(store, reference)
        artifact = fetched.artifact
        what = repr((fetched.descriptor.digest, str(reference), as_format, thin, replace(options, force=False)))
        options = replace(options, key=sha256_digest(what.encode()))
        layers: Sequence[StoredLayer] = artifact.layers
        if thin:
            from .thin import thin_sink

            target = _carton_path(dest, as_format, artifact.model)
            kind = "carton"
            sink, layers, warning = thin_sink(reference, fetched, store, target, options, registry)
            warnings.append(warning)
        else:
            kind, sink = sink_for(dest, as_format, artifact.model, options)
        with sink:
            if sink.losses and on_losses:
                on_losses(sink.losses)
            done = restore(layers, store, sink, concurrency=concurrency, progress=progress)
        warnings += store.warnings
    return PullReport(
        reference=str(reference.pinned(fetched.descriptor.digest)),
        digest=fetched.descriptor.digest,
        identity=done.identity,
        format=kind,
        path=str(dest),
        files=len(artifact.model.files),
        size=sum(layer.descriptor.size for layer in layers),
        kept=done.kept,
        note=sink.note,
        losses=list(sink.losses),
        warnings=warnings,
    )


def _carton_path(dest: str | os.PathLike[str], as_format: str | None, stored: StoredModel) -> Path:
    ollama = isinstance(dest, str) and dest.startswith(OLLAMA)
    found, packed = format_for(Path(dest), as_format, stored)
    if ollama or found.name != "carton" or not packed:
        raise UsageError("only a carton can be thin", hint="name the target x.carton, or add --as carton")
    return Path(dest)
