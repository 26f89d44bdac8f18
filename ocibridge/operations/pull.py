# SPDX-License-Identifier: Apache-2.0
"""`pull`: an artifact in a store becomes a model on disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..formats.base import StoredModel
from ..layers import StoredLayer
from ..oci import Reference, parse_reference, sha256_digest
from ..stores.opening import open_store
from ..transfer import Progress, restore
from .artifacts import fetch_artifact
from .options import PullOptions
from .pulled import PullReport
from .sources import OLLAMA
from .targets import format_for, sink_for, write_options

if TYPE_CHECKING:
    from ..stores.registry import RegistryOptions


def pull(
    source: str | Reference,
    dest: str | os.PathLike[str],
    options: PullOptions = PullOptions(),
    *,
    on_losses: Callable[[Sequence[str]], None] | None = None,
    registry: RegistryOptions | None = None,
    progress: Progress | None = None,
) -> PullReport:
    """Restore a model from an artifact.

    Args:
        source: A reference: `HOST[:PORT]/REPOSITORY[:TAG|@DIGEST]`, `oci:DIR[:TAG]` or `oci-archive:FILE[:TAG]`.
        dest: Where to write. `x.carton` and `x.mlarchive` become archives, any other name a folder. `ollama:NAME[:TAG]`
            is a model in the local Ollama store; blobs that the store has already do not move.
        options: What is written, and how.
        on_losses: Told what the target cannot express, before anything is written; the report has it too.
        registry: Credentials and TLS.
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
    writing = write_options(options)
    warnings = []
    with open_store(reference, registry) as store:
        fetched = fetch_artifact(store, reference)
        artifact = fetched.artifact
        what = repr(
            (fetched.descriptor.digest, str(reference), options.as_format, options.thin, replace(writing, force=False))
        )
        writing = replace(writing, key=sha256_digest(what.encode()))
        layers: Sequence[StoredLayer] = artifact.layers
        if options.thin:
            from .thin import thin_sink

            target = _carton_path(dest, options.as_format, artifact.model)
            kind = "carton"
            sink, layers, warning = thin_sink(reference, fetched, store, target, writing, registry)
            warnings.append(warning)
        else:
            kind, sink = sink_for(dest, options.as_format, artifact.model, writing)
        with sink:
            if sink.losses and on_losses:
                on_losses(sink.losses)
            done = restore(layers, store, sink, concurrency=options.concurrency, progress=progress)
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
