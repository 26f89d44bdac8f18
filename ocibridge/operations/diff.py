# SPDX-License-Identifier: Apache-2.0
"""`diff`: what changes from one model to another."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

from ..oci import Descriptor, Reference
from ..transfer import Progress, Workers
from .compare import FilePair, compare_files
from .opened import OpenModel, open_model
from .options import DiffOptions
from .reports import DiffReport, DiffSide, FileDifference, LayerDifference, ValueDifference, info_report
from .sources import other_side, subject_of

if TYPE_CHECKING:
    from ..stores.registry import RegistryOptions


def diff(
    before: str | os.PathLike[str] | Reference,
    after: str | os.PathLike[str] | Reference,
    options: DiffOptions = DiffOptions(),
    *,
    registry: RegistryOptions | None = None,
    progress: Progress | None = None,
) -> DiffReport:
    """Compare two models: files, metadata and, of two artifacts, annotations and layers.

    A file is read only if its sha256 is not known on one of the sides and both have the same size.

    Args:
        before: A path, a model of Ollama (see `push`), or a reference.
        after: Another one.
        options: How sources on disk are read.
        registry: Credentials and TLS settings, for both sides; for the second alone where they are on two hosts.
        progress: Receives progress events.

    Returns:
        What differs.

    Raises:
        SourceError: a source on disk is missing or cannot be read.
        FormatError: a side is no model.
        IntegrityError: a file that had to be read is not what its model promises.
        StoreError: a store does not have something, refuses it or cannot be reached.
    """
    old, new = subject_of(before), subject_of(after)
    with ExitStack() as stack:
        reached = registry
        if isinstance(old, Reference) and isinstance(new, Reference):
            reached = other_side(old, new, registry)
        first = stack.enter_context(open_model(old, options, reached))
        second = stack.enter_context(open_model(new, options, registry))
        workers = Workers(options.concurrency, progress or Progress())
        folder = first.folder or second.folder
        pairs = (
            []
            if _same(first, second)
            else compare_files(first.files(folder=folder), second.files(folder=folder), workers)
        )
        warnings = [*first.warnings, *second.warnings]
    stored = first.fetched is not None and second.fetched is not None
    files = [_file(pair) for pair in pairs if pair.change]
    metadata = _values(_metadata(first, stored), _metadata(second, stored))
    annotations = _values(_annotations(first), _annotations(second)) if stored else []
    layers = _layers(first, second)
    return DiffReport(
        before=_side(first),
        after=_side(second),
        # Manifests with other digests differ, though it were in nothing that is compared here.
        same=_same(first, second) or not (stored or files or metadata),
        files=files,
        same_count=len(pairs) - len(files),
        metadata=metadata,
        annotations=annotations,
        layers=layers,
        warnings=warnings,
    )


def _same(first: OpenModel, second: OpenModel) -> bool:
    """Return whether both are the same manifest."""
    if first.fetched is None or second.fetched is None:
        return False
    return first.fetched.descriptor.digest == second.fetched.descriptor.digest


def _side(model: OpenModel) -> DiffSide:
    return DiffSide(
        source=model.subject,
        digest=model.fetched.descriptor.digest if model.fetched else None,
        format=model.model.format,
        identity=model.model.identity,
    )


def _file(pair: FilePair) -> FileDifference:
    assert pair.change is not None
    return FileDifference(
        path=pair.path,
        change=pair.change,
        before_size=pair.before.size if pair.before else None,
        after_size=pair.after.size if pair.after else None,
        before_sha256=pair.before.sha256 if pair.before else None,
        after_sha256=pair.after.sha256 if pair.after else None,
    )


def _metadata(model: OpenModel, both: bool) -> dict[str, object]:
    """Metadata, and the dialect if both models are artifacts."""
    dialect = {"dialect": model.fetched.artifact.dialect} if model.fetched and both else {}
    return {**info_report(model.model.info).model_dump(mode="json", by_alias=True), **dialect}


def _annotations(model: OpenModel) -> Mapping[str, object]:
    return (model.fetched.artifact.manifest.annotations if model.fetched else None) or {}


def _values(before: Mapping[str, object], after: Mapping[str, object]) -> list[ValueDifference]:
    return [
        ValueDifference(key=key, before=_text(before.get(key)), after=_text(after.get(key)))
        for key in dict.fromkeys((*before, *after))
        if before.get(key) != after.get(key)
    ]


def _text(value: object) -> str | None:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or None
    return None if value is None else str(value)


def _layers(first: OpenModel, second: OpenModel) -> LayerDifference | None:
    if first.fetched is None or second.fetched is None:
        return None
    before, after = _blobs(first), _blobs(second)
    shared = before.keys() & after.keys()
    return LayerDifference(
        shared=len(shared),
        shared_size=sum(after[digest].size for digest in shared),
        removed=len(before.keys() - shared),
        removed_size=_size(blob for digest, blob in before.items() if digest not in shared),
        added=len(after.keys() - shared),
        added_size=_size(blob for digest, blob in after.items() if digest not in shared),
    )


def _blobs(model: OpenModel) -> dict[str, Descriptor]:
    assert model.fetched is not None
    return {layer.descriptor.digest: layer.descriptor for layer in model.fetched.artifact.layers}


def _size(blobs: Iterable[Descriptor]) -> int:
    return sum(blob.size for blob in blobs)
