# SPDX-License-Identifier: Apache-2.0
"""`verify`: every byte is read and checked, and the report says what is proven by it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import IntegrityError, UsageError, number
from ..formats.check import CheckSink
from ..formats.registry import format_named
from ..io.marker import recorded_reference
from ..layers import StoredLayer
from ..model import Model, ModelFile
from ..oci import Reference
from ..paths import show
from ..stores.files import layer_files
from ..stores.opening import open_store
from ..transfer import Progress, Workers, restore
from .compare import FilePair, compare_files, sha256_of
from .models import fetch_model
from .opened import OpenModel, open_model
from .options import VerifyOptions
from .reports import VerifyReport
from .sources import Source, open_source, other_side, subject_of

if TYPE_CHECKING:
    from ..stores.registry import RegistryOptions

_NAMED = 5
"""Files that a message names for each kind of difference."""


def verify(
    subject: str | os.PathLike[str] | Reference,
    options: VerifyOptions = VerifyOptions(),
    *,
    registry: RegistryOptions | None = None,
    progress: Progress | None = None,
) -> VerifyReport:
    """Verify a model on disk or in a store by reading all of its files.

    With `options.manifest_only`, only metadata is read. With `options.against`, every file is compared with that model,
    of which nothing is read but manifest and config, and files whose sha256 these do not say. Linked files that are not
    fetched are not verified; the report says how many these are.

    Args:
        subject: A path, a model of Ollama (see `push`), or a reference.
        options: How to read the source, and whether to read the manifest only.
        registry: Credentials and TLS settings; where `options.against` is on another host, for `subject` alone.
        progress: Receives progress events.

    Returns:
        What is proven now, with warnings about what is not. Where the model promises nothing that its bytes could be
        compared with, as a folder of files, `verified` is false.

    Raises:
        UsageError: `manifest_only` does not apply to the subject.
        SourceError: the source on disk is missing or cannot be read.
        IntegrityError: bytes do not match their expected digest, size or checksum, where verification stops at the
            first; or the files are not those of `options.against`, all of which are compared.
        FormatError: the source breaks the rules of its format.
        LimitError: a document is larger than its limit.
        StoreError: the store does not have something, refuses it or cannot be reached.
    """
    found = subject_of(subject)
    if options.manifest_only:
        if options.against is not None:
            raise UsageError("--against compares files, and --manifest-only reads none", hint="leave one of them out")
        return _verify_manifest(found, registry)
    workers = Workers(options.concurrency, progress or Progress())
    with ExitStack() as stack:
        other = None
        if options.against is not None:
            against = subject_of(options.against)
            reached = registry
            if isinstance(found, Reference) and isinstance(against, Reference):
                reached = other_side(against, found, registry)
            other = stack.enter_context(open_model(against, options, reached))
        if isinstance(found, Reference):
            report, files = _verify_artifact(found, registry, workers)
        else:
            paths = None if other is None else {file.path for file in other.files()}
            model = stack.enter_context(_open_alike(found, paths, options, registry))
            report, files = _verify_source(str(found), model, workers)
            if not report.verified and isinstance(found.place, Path):
                report = report.model_copy(update={"pulled_from": recorded_reference(found.place)})
            if other is not None:
                linked = {file.path for file in model.linked}
                folder = isinstance(found.place, Path) and found.place.is_dir()
                theirs = [file for file in other.files(folder=folder) if file.path not in linked]
                return _held_against(report, files, other, theirs, workers)
        return report if other is None else _held_against(report, files, other, other.files(), workers)


@contextmanager
def _open_alike(
    found: Source, paths: Collection[str] | None, options: VerifyOptions, registry: RegistryOptions | None
) -> Iterator[Model]:
    """Open a source; an archive as one file, if that is what it is compared with."""
    with open_source(found, options, registry, linked=True) as (model, _):
        archive = found.format.exact and isinstance(found.place, Path) and found.place.is_file()
        if paths is None or not archive or paths == {file.path for file in model.files}:
            yield model
            return
    with open_source(found, options, registry, exact=True) as (whole, _):
        yield whole if paths == {file.path for file in whole.files} else model


def _verify_source(source: str, model: Model, workers: Workers) -> tuple[VerifyReport, list[ModelFile]]:
    """Read every file; the report, and the files with their sha256."""
    size = sum(file.size for file in model.files)
    workers.progress.plan("verifying", len(model.files), size)
    sums = workers.map(lambda file: sha256_of(file, workers, "verifying"), model.files)
    promised = sum(1 for file in model.files if file.sha256)
    proven = [f"{number(len(model.files), 'file')} ({number(size, 'byte')}) can be read to their end"]
    if promised:
        proven.append(f"{promised} of them {'has' if promised == 1 else 'have'} the sha256 that the format promises")
    if model.identity:
        proven.append(f"the identity is {model.identity}")
    report = VerifyReport(
        source=source,
        verified=bool(promised or model.identity),
        identity=model.identity,
        file_count=len(model.files),
        size=size,
        proven=proven,
        linked_count=len(model.linked),
        warnings=[*model.warnings, *_unproven(model)],
    )
    return report, [file._replace(sha256=found) for file, found in zip(model.files, sums, strict=True)]


def _held_against(
    report: VerifyReport, files: Sequence[ModelFile], other: OpenModel, theirs: Iterable[ModelFile], workers: Workers
) -> VerifyReport:
    """Compare the files of a verified model with those of another.

    Raises:
        IntegrityError: they are not the same.
    """
    pairs = compare_files(theirs, files, workers)
    wrong = [pair for pair in pairs if pair.change]
    # An archive that is stored whole has no file in common with its folder.
    apart = not any(pair.before and pair.after for pair in pairs)
    same = apart and report.identity is not None and report.identity == other.model.identity
    if wrong and not same:
        raise IntegrityError(
            f"{report.source} is not {other.name}: {_named(wrong)}",
            hint=f"'ocibridge diff {other.name} {report.source}' shows all of it",
        )
    if same:
        proven = "the identity is the one that is recorded in "
    else:
        proven = f"{number(len(pairs), 'file')}, and no other, {'is' if len(pairs) == 1 else 'are'} byte for byte in "
    return report.model_copy(
        update={
            "verified": True,
            "against": other.subject,
            "proven": [*report.proven, proven + other.subject],
            "warnings": [*report.warnings, *other.warnings],
        }
    )


def _named(wrong: Sequence[FilePair]) -> str:
    """The files that differ: `changed config.json; missing a.bin, b.bin and 3 more`."""
    found = []
    for change, word in (("changed", "changed"), ("removed", "missing"), ("added", "added")):
        paths = [show(pair.path) for pair in wrong if pair.change == change]
        more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
        found += [f"{word} {', '.join(paths[:_NAMED])}{more}"] if paths else []
    return "; ".join(found)


def _unproven(model: Model) -> list[str]:
    if not model.linked:
        return []
    return [
        f"files that are only linked: {len(model.linked)}, such as {show(model.linked[0].path)}; nothing is proven of "
        "their bytes; --fetch-links has them fetched and checked"
    ]


def _verify_artifact(
    reference: Reference, registry: RegistryOptions | None, workers: Workers
) -> tuple[VerifyReport, list[ModelFile]]:
    """Read every layer; the report, and the files with their sha256."""
    with open_store(reference, registry) as store:
        fetched, notes = fetch_model(store, reference)
        artifact = fetched.artifact
        for layer in artifact.layers:
            _check_diff_id(layer)
        form = format_named(artifact.model.format)
        sink = form.checker(artifact.model) if form else CheckSink(artifact.model)
        with sink:
            identity = restore(
                artifact.layers,
                store,
                sink,
                phase="verifying",
                concurrency=workers.concurrency,
                progress=workers.progress,
            ).identity
        files = [file for layer in artifact.layers for file in layer_files(store, layer)]
        warnings = [*notes, *store.warnings]
    size = sum(layer.descriptor.size for layer in artifact.layers)
    layers, count = number(len(artifact.layers), "layer"), number(len(sink.hashes), "file")
    proven = [
        f"the manifest has the digest {fetched.descriptor.digest}",
        f"{layers} ({number(size, 'byte')}) and the config have the digests that the manifest names",
        f"{sink.listed} of {count} {'has' if sink.listed == 1 else 'have'} the sha256 that the manifest lists",
    ]
    if any(layer.diff_id for layer in artifact.layers):
        proven.append("every layer unpacks to the diff id that the config names")
    if identity:
        proven.append(f"the identity is {identity}: every row of its own manifest matches the bytes of the layers")
    report = VerifyReport(
        source=str(reference.pinned(fetched.descriptor.digest)),
        identity=identity,
        digest=fetched.descriptor.digest,
        file_count=len(sink.hashes),
        size=size,
        proven=proven,
        warnings=warnings,
    )
    return report, [file._replace(sha256=sink.hashes[file.path]) for file in files]


def _verify_manifest(found: object, registry: RegistryOptions | None) -> VerifyReport:
    if not isinstance(found, Reference):
        raise UsageError(
            f"--manifest-only is for artifacts, and {found} is none", hint="leave it out, or give a reference"
        )
    from .thin import blobs_of

    with open_store(found, registry) as store:
        fetched, notes = fetch_model(store, found)
        form, blobs = blobs_of(found, fetched, store, "--manifest-only", registry)
        for layer in fetched.artifact.layers:
            _check_diff_id(layer)
        proof = form.prove(fetched.artifact.model, blobs, store.limits)
    return VerifyReport(
        source=str(found.pinned(fetched.descriptor.digest)),
        identity=proof.identity,
        digest=fetched.descriptor.digest,
        file_count=proof.files,
        size=proof.size,
        proven=[f"the manifest has the digest {fetched.descriptor.digest}", *proof.proven],
        warnings=[*notes, *proof.warnings],
    )


def _check_diff_id(layer: StoredLayer) -> None:
    # Compressed layers are checked while they are unpacked; the others must not differ from their blob.
    if not layer.encoding.compressed and layer.diff_id not in (None, layer.descriptor.digest):
        raise IntegrityError(
            f"the config gives the diff id {layer.diff_id} for the uncompressed layer {layer.descriptor.digest}",
            hint="the artifact was built wrongly: publish it again",
        )
