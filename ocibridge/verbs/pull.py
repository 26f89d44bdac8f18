# SPDX-License-Identifier: Apache-2.0
"""`pull`: an artifact in a store becomes a model on disk."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from .. import settings
from ..errors import UsageError
from ..formats.base import Format, Sink, StoredModel, WriteOptions
from ..layers import StoredLayer
from ..oci import Reference, parse_reference
from ..transfer import Progress, restore
from .artifacts import fetch_artifact
from .reports import PullReport
from .sources import OLLAMA, formats, open_store

if TYPE_CHECKING:
    from ..stores.registry import RegistryOptions

FOLDER = "folder"


def pull(
    source: str | Reference,
    dest: str | os.PathLike[str],
    *,
    as_format: str | None = None,
    zip_method: str = "stored",
    thin: bool = False,
    force: bool = False,
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
    if zip_method not in settings.ZIP_METHODS:
        raise UsageError(f"{zip_method!r} is no zip method", hint=f"give one of: {', '.join(settings.ZIP_METHODS)}")
    with open_store(reference, registry) as store:
        fetched = fetch_artifact(store, reference)
        artifact = fetched.artifact
        layers: Sequence[StoredLayer] = artifact.layers
        options, warnings = WriteOptions(zip_method=zip_method, force=force), []
        if thin:
            from .thin import thin_sink

            target = _carton_path(dest, as_format, artifact.model)
            kind = "carton"
            sink, layers, warning = thin_sink(reference, fetched, store, target, options, registry)
            warnings.append(warning)
        else:
            kind, sink = _sink(dest, as_format, artifact.model, options)
        with sink:
            identity = restore(layers, store, sink, concurrency=concurrency, progress=progress)
    return PullReport(
        reference=str(reference.pinned(fetched.descriptor.digest)),
        digest=fetched.descriptor.digest,
        identity=identity,
        format=kind,
        path=str(dest),
        files=len(artifact.model.files),
        size=sum(layer.descriptor.size for layer in layers),
        note=sink.note,
        warnings=warnings,
    )


def _carton_path(dest: str | os.PathLike[str], as_format: str | None, stored: StoredModel) -> Path:
    ollama = isinstance(dest, str) and dest.startswith(OLLAMA)
    found, packed = _format(Path(dest), as_format, stored)
    if ollama or found.name != "carton" or not packed:
        raise UsageError("only a carton can be thin", hint="name the target x.carton, or add --as carton")
    return Path(dest)


def _sink(
    dest: str | os.PathLike[str], as_format: str | None, stored: StoredModel, options: WriteOptions
) -> tuple[str, Sink]:
    """The name of the format that is written, and where it goes."""
    if isinstance(dest, str) and dest.startswith(OLLAMA):
        from .ollama import ollama_sink

        if as_format is not None:
            raise UsageError("--as is for files and folders", hint="leave it out, or give a path as DEST")
        return "ollama", ollama_sink(dest, stored, options)
    target = Path(dest)
    found, packed = _format(target, as_format, stored)
    return found.name if packed else FOLDER, found.sink(target, stored, replace(options, packed=packed))


def _format(target: Path, as_format: str | None, stored: StoredModel) -> tuple[Format, bool]:
    """The format to write, and whether as an archive: as asked for, else by the name of the target."""
    known = {each.name: each for each in formats()}
    if as_format is None:
        as_format = next((each.name for each in known.values() if each.suits(target)), FOLDER)
    if as_format not in known:
        raise UsageError(f"{as_format!r} is no format to pull as", hint=f"give one of: {', '.join(known)}")
    if as_format != FOLDER:
        return known[as_format], True
    # A folder of a model that came from an archive is that archive unpacked, with its identity.
    return known.get(stored.format or FOLDER, known[FOLDER]), False
