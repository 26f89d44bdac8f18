# SPDX-License-Identifier: Apache-2.0
"""`pull`: an artifact in a store becomes a model on disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import FormatError, UsageError
from ..formats.base import Sink
from ..formats.registry import address_of
from ..layers import StoredLayer
from ..oci import Reference, RegistryReference, parse_reference, sha256_digest
from ..stores.base import Store
from ..stores.opening import open_store
from ..transfer import Progress, restore
from .artifacts import Fetched, fetch_artifact
from .options import PullOptions
from .reports import PullReport
from .targets import format_to_write, sink_for, writing_of

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
        on_losses: Called before anything is written, with what the target cannot express; also in the report.
        registry: Credentials and TLS.
        progress: Receives progress events.

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
    warnings = []
    with open_store(reference, registry) as store:
        fetched = fetch_artifact(store, reference)
        artifact = fetched.artifact
        written = (options.as_format, options.thin, str(options.writing), options.limits)
        what = repr((fetched.descriptor.digest, str(reference), written))
        key = sha256_digest(what.encode())
        layers: Sequence[StoredLayer] = artifact.layers
        if options.thin:
            kind, sink, layers, warning = _thin(reference, fetched, store, dest, options, key, registry)
            warnings.append(warning)
        else:
            kind, sink = sink_for(dest, artifact.model, options, key)
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


def _thin(
    reference: Reference,
    fetched: Fetched,
    store: Store,
    dest: str | os.PathLike[str],
    options: PullOptions,
    key: str,
    registry: RegistryOptions | None,
) -> tuple[str, Sink, list[StoredLayer], str]:
    """The format of a thin archive, where it goes, the layers that it needs, and what its user has to know."""
    from .thin import blobs_of

    stored = fetched.artifact.model
    form, packed = format_to_write(Path(dest), options.as_format, stored)
    if not packed or (isinstance(dest, str) and address_of(dest)):
        suffix = form.suffixes[0] if form.suffixes else ".carton"
        raise UsageError(f"{dest} is no archive, and only an archive can be thin", hint=f"name the target x{suffix}")
    if not isinstance(reference, RegistryReference):
        raise UsageError(
            f"a thin archive links to a registry, and {reference} is in none",
            hint="leave out --thin, or push it to one",
        )
    source, blobs = blobs_of(reference, fetched, store, "--thin", registry)
    if source.name != form.name:
        raise FormatError(f"{reference} is none of the {form.label}, so {dest} cannot be thin", hint="leave out --thin")
    sink, linked = form.thin_sink(Path(dest), stored, writing_of(form, options, str(dest), True, key), blobs)
    layers = fetched.artifact.layers
    size = sum(each.descriptor.size for each in layers if each.files[0].path in linked)
    warning = (
        f"{len(linked)} files ({size} bytes) are only linked, to {blobs.start}: the archive needs that registry "
        "whenever it is loaded, and its own client may not check what a link gives it"
    )
    return form.name, sink, [each for each in layers if each.files[0].path not in linked], warning
