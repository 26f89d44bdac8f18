# SPDX-License-Identifier: Apache-2.0
"""`convert`: from any format or artifact to any other; between artifacts, to another dialect."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from .. import settings
from ..dialects.registry import dialect_named, dialect_names
from ..errors import InvalidReference, UsageError
from ..formats.registry import address_of, format_for, refuse_options
from ..oci import Reference, has_scheme, parse_reference
from ..oci.reference import web_address
from ..options import refuse_set, shared
from ..stores.opening import open_store
from ..stores.registry.hosts import Hosts
from ..transfer import DigestCache, Progress
from .artifacts import fetch_artifact
from .options import (
    STANDARD_OUTPUT,
    ConvertOptions,
    DryRunOptions,
    FolderOptions,
    PullOptions,
    PushOptions,
    SelectOptions,
    TargetOptions,
)
from .pull import pull
from .push import push
from .reports import ConvertReport, PullReport, PushReport
from .rewrite import rewrite
from .sources import is_like_reference, other_side, path_or_reference, subject_of
from .translate import plan_translation, publish_translation

if TYPE_CHECKING:
    from ..stores.registry import RegistryOptions


def convert(
    source: str | os.PathLike[str] | Reference,
    target: str | os.PathLike[str] | Reference,
    options: ConvertOptions = ConvertOptions(),
    *,
    on_losses: Callable[[Sequence[str]], None] | None = None,
    registry: RegistryOptions | None = None,
    progress: Progress | None = None,
) -> ConvertReport:
    """Convert a model to another format or artifact, if that can hold it.

    From a path to a reference this is a `push`, from a reference to a path a `pull`; between paths, no store is used.
    Between references, if the other dialect has a name for every layer as it is, no layer changes, and none
    moves that the target has already: within one repository only config and manifest are new, within one registry
    blobs are mounted. Raw layers become tar layers for the draft, which has no others; they stream from store to store,
    once where the target has nothing yet, else once to be hashed and once to be sent.

    Args:
        source: A path, `ollama:NAME[:TAG]`, `ollama://HOST/NAMESPACE/NAME[:TAG]` or a reference.
        target: A path, `ollama:NAME[:TAG]` or a reference, whose tag defaults to `latest`.
        options: How the source is read, and what is written.
        on_losses: Called before anything is written, with what the target cannot express; also in the report.
        registry: Credentials and TLS, for the target; for the source where it is on the same host, or alone.
        progress: Receives progress events.

    Raises:
        UsageError: the arguments do not fit together, or the dialect has no name for a layer.
        NotFound: there is nothing of that name.
        FormatError: the source is no model, or the target cannot hold it.
        IntegrityError: a byte is not what was promised.
        DestinationError: the target cannot be written.
        StoreError: one of the stores refused something.

    Example:
        >>> options = ConvertOptions(dialect="modelpack")
        >>> convert("localhost:5000/digits:v1", "localhost:5000/digits:cncf", options)  # doctest: +SKIP
    """
    origin, goal = subject_of(source), _target_of(target)
    if not isinstance(goal, Reference):
        if options.dialect:
            raise UsageError("--dialect is for artifacts", hint="leave it out, or give a reference as the target")
        refuse_set(options, FolderOptions, f"publishing, and {goal} is on disk")
        if isinstance(origin, Reference):
            refuse_options(options.reading, f"{origin} is in a store")
            writing = shared(PullOptions, options)
            return _restored(pull(origin, goal, writing, on_losses=on_losses, registry=registry, progress=progress))
        return rewrite(_as_given(source), goal, options, on_losses=on_losses, registry=registry, progress=progress)
    refuse_set(options, TargetOptions, f"a target on disk, and {goal} is in a store")
    refuse_set(options, DryRunOptions, f"a target on disk, and {goal} is in a store")
    refuse_options(options.writing, f"{goal} is in a store")
    if not isinstance(origin, Reference):
        packing = shared(PushOptions, options, dialect=options.dialect or "cnai")
        return _published(push(_as_given(source), goal, packing, registry=registry, progress=progress), packing)
    refuse_set(options, SelectOptions, f"a source or target on disk, and {origin} and {goal} are in stores")
    refuse_set(options, FolderOptions, f"publishing folders, and {origin} is in a store")
    refuse_options(options.reading, f"{origin} is in a store")
    if options.dialect is None:
        raise UsageError(
            "the dialect is missing",
            hint=f"add --dialect with one of: {', '.join(dialect_names())}",
        )
    return _translated(origin, goal, options.dialect, options, registry, progress)


def _target_of(target: str | os.PathLike[str] | Reference) -> str | Reference:
    """A reference, a path, or a text with the scheme of a format."""
    if isinstance(target, str) and address_of(target):
        return target
    if isinstance(target, Reference):
        return target
    text = os.fspath(target)
    if isinstance(target, str) and (has_scheme(text) or web_address(text)):
        return parse_reference(text)
    if text == STANDARD_OUTPUT or format_for(Path(text)):
        return text
    try:
        found = path_or_reference(text)
        return text if isinstance(found, Path) else found
    except InvalidReference:
        if is_like_reference(text):
            raise
        return text


def _as_given(source: str | os.PathLike[str] | Reference) -> str | os.PathLike[str]:
    assert not isinstance(source, Reference)
    return source


def _restored(done: PullReport) -> ConvertReport:
    return ConvertReport(
        source=done.source,
        source_format=done.source_format,
        source_dialect=done.source_dialect,
        source_identity=done.source_identity,
        target=done.target,
        format=done.format,
        identity=done.identity,
        file_count=done.file_count,
        selected_from=done.selected_from,
        changes=done.changes,
        dry_run=done.dry_run,
        files=done.files,
        size=done.size,
        kept=done.kept,
        note=done.note,
        losses=done.losses,
        warnings=done.warnings,
    )


def _published(done: PushReport, options: PushOptions) -> ConvertReport:
    return ConvertReport(
        source=done.source,
        source_format=done.format,
        source_identity=done.identity,
        target=done.target,
        reference=done.reference,
        digest=done.digest,
        tag=done.tag,
        dialect=options.dialect,
        identity=done.identity,
        format=done.format,
        layers=done.layers,
        warnings=done.warnings,
    )


def _translated(
    reference: Reference,
    goal: Reference,
    dialect: str,
    options: ConvertOptions,
    registry: RegistryOptions | None,
    progress: Progress | None,
) -> ConvertReport:
    if goal.digest:
        raise UsageError("the target of a conversion has a tag, not a digest", hint="leave out the part from '@' on")
    dialect_named(dialect)
    with ExitStack() as stack:
        same = goal.name == reference.name
        hosts = stack.enter_context(Hosts())
        notes = settings.cache_dir() if options.cache else None
        store = stack.enter_context(
            open_store(reference, other_side(reference, goal, registry), hosts=hosts, write=same, notes=notes)
        )
        fetched = fetch_artifact(store, reference)
        plan = plan_translation(fetched, store, dialect)
        place = store
        if not same:
            place = stack.enter_context(open_store(goal, registry, hosts=hosts, create=True, notes=notes))
        return publish_translation(
            plan,
            fetched,
            store,
            reference,
            place,
            goal,
            dialect,
            cache=stack.enter_context(DigestCache(notes)),
            concurrency=options.concurrency,
            progress=progress,
        )
