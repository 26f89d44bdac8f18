# SPDX-License-Identifier: Apache-2.0
"""`pull`: an artifact in a store becomes a model on disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import FormatError, UsageError, number
from ..formats.base import Sink, StoredModel
from ..formats.registry import address_of
from ..io.existing import TargetRules
from ..layers import StoredLayer
from ..oci import Reference, RegistryReference, sha256_digest
from ..stores.base import Store
from ..stores.opening import open_store
from ..transfer import Progress, restore
from .artifacts import Fetched
from .dryrun import Plan, plan_target
from .existing import changes_of, kept_archive, places_of
from .models import fetch_model
from .options import PullOptions
from .reports import FileChanges, PullReport
from .selection import Selection
from .sources import stored_reference
from .targets import default_dest, folders_above, format_to_write, target_for, writing_of

if TYPE_CHECKING:
    from ..stores.registry import RegistryOptions


def pull(
    source: str | Reference,
    dest: str | os.PathLike[str] | None = None,
    options: PullOptions = PullOptions(),
    *,
    on_losses: Callable[[Sequence[str]], None] | None = None,
    registry: RegistryOptions | None = None,
    progress: Progress | None = None,
) -> PullReport:
    """Restore a model from an artifact.

    Args:
        source: A reference: `HOST[:PORT]/REPOSITORY[:TAG|@DIGEST]`, `oci:DIR[:TAG]` or `oci-archive:FILE[:TAG]`.
        dest: Where to write. `x.carton` and `x.mlarchive` become archives, `x.gguf` and the like the only file of a
            model, `-` its bytes on standard output, and any other name, or one that ends with a slash, a folder, to
            which files are added if it exists. `ollama:NAME[:TAG]` is a model in the local Ollama store; blobs that the
            store has already do not move. None stands for the name of the model, in the current folder. Folders above
            the target are made.
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
        DestinationError: something at the target is in the way, or it cannot be written.
    """
    reference = stored_reference(source, f"'ocibridge convert {source} TARGET' writes it in another format")
    if options.dry_run and options.thin:
        raise UsageError("--dry-run says nothing of a thin archive", hint="leave out one of --dry-run and --thin")
    selection = Selection(options)
    with ExitStack() as stack:
        store = stack.enter_context(open_store(reference, registry))
        fetched, warnings = fetch_model(store, reference)
        stored, layers = selection.of_artifact(fetched.artifact)
        dest = default_dest(reference, stored, options.as_format) if dest is None else dest
        key = _key(reference, fetched, options)
        report = _report(reference, fetched, stored, layers, str(dest), bool(selection))
        if kept := kept_archive(dest, key, options):
            found = {"identity": kept.get("identity"), "format": kept["format"], "changes": FileChanges(kept=1)}
            return report.model_copy(
                update={**found, "dry_run": options.dry_run, "warnings": [*warnings, *store.warnings]}
            )
        record = {"reference": report.source, "digest": report.digest, "key": key}
        rules = TargetRules(options.existing, places_of(reference), record)
        if options.dry_run:
            return _planned(report, plan_target(dest, stored, options, rules), [*warnings, *store.warnings])
        stack.enter_context(folders_above(dest))
        existed = os.path.lexists(dest)
        if options.thin:
            kind, sink, layers, warning = _thin(reference, fetched, store, dest, options, key, rules, registry)
            warnings.append(warning)
        else:
            target = target_for(dest, stored, options)
            kind, sink = target.kind, target.sink(key, rules)
        with sink:
            if sink.losses and on_losses:
                on_losses(sink.losses)
            wanted = selection.takes if selection else None
            done = restore(layers, store, sink, concurrency=options.concurrency, progress=progress, wanted=wanted)
        warnings += store.warnings
    written = {
        "identity": done.identity,
        "format": kind,
        "file_count": done.files if selection else len(stored.files),
        "size": _size(layers),
        "kept": done.kept,
        "changes": changes_of(sink, existed),
        "note": sink.note,
        "losses": list(sink.losses),
        "warnings": warnings,
    }
    return report.model_copy(update=written)


def _report(
    reference: Reference,
    fetched: Fetched,
    stored: StoredModel,
    layers: Sequence[StoredLayer],
    target: str,
    partial: bool,
) -> PullReport:
    """The report as far as it is known before anything is written."""
    model = fetched.artifact.model
    return PullReport(
        source=str(reference.pinned(fetched.descriptor.digest)),
        source_format=model.format,
        source_dialect=fetched.artifact.dialect,
        source_identity=model.identity,
        target=target,
        digest=fetched.descriptor.digest,
        identity=None,
        format="",
        file_count=len(stored.files),
        selected_from=len(model.files) if partial else None,
        size=_size(layers),
        warnings=[],
    )


def _size(layers: Sequence[StoredLayer]) -> int:
    return sum(layer.descriptor.size for layer in layers)


def _planned(report: PullReport, plan: Plan, warnings: list[str]) -> PullReport:
    return report.model_copy(
        update={
            "dry_run": True,
            "format": plan.format,
            "files": plan.files,
            "changes": plan.changes,
            "losses": list(plan.losses),
            "warnings": warnings,
        }
    )


def _key(reference: Reference, fetched: Fetched, options: PullOptions) -> str:
    """Return the key of what is written: another pull of the same resumes it."""
    # A thin archive names its registry; everything else is the same wherever it comes from.
    place = str(reference) if options.thin else ""
    written = (options.as_format, place, str(options.writing), options.limits, options.include, options.exclude)
    return sha256_digest(repr((fetched.descriptor.digest, written)).encode())


def _thin(
    reference: Reference,
    fetched: Fetched,
    store: Store,
    dest: str | os.PathLike[str],
    options: PullOptions,
    key: str,
    rules: TargetRules,
    registry: RegistryOptions | None,
) -> tuple[str, Sink, list[StoredLayer], str]:
    """The format of a thin archive, where it goes, the layers that it needs, and what its user has to know."""
    from .thin import blobs_of

    stored = fetched.artifact.model
    if options.include or options.exclude:
        raise UsageError("a thin archive has all files of a model", hint="leave out --include and --exclude")
    form, packed = format_to_write(dest, options.as_format, stored)
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
    sink, linked = form.thin_sink(Path(dest), stored, writing_of(form, options, str(dest), True, key, rules), blobs)
    layers = fetched.artifact.layers
    size = sum(each.descriptor.size for each in layers if each.files[0].path in linked)
    be = "is" if len(linked) == 1 else "are"
    warning = (
        f"{number(len(linked), 'file')} ({number(size, 'byte')}) {be} only linked, to {blobs.start}: the archive needs "
        "that registry whenever it is loaded, and its own client may not check what a link gives it"
    )
    return form.name, sink, [each for each in layers if each.files[0].path not in linked], warning
