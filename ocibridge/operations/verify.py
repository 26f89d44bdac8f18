# SPDX-License-Identifier: Apache-2.0
"""`verify`: every byte is read and checked, and the report says what is proven by it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..errors import IntegrityError, UsageError, number
from ..formats.check import CheckSink
from ..formats.registry import format_named
from ..layers import Encoding, Layer, LayerStream, StoredLayer
from ..model import Model, ModelFile
from ..oci import Reference
from ..paths import show
from ..stores.opening import open_store
from ..transfer import Progress, Task, Workers, reported, restore
from .artifacts import fetch_artifact
from .options import VerifyOptions
from .reports import VerifyReport
from .sources import open_source, subject_of

if TYPE_CHECKING:
    from ..stores.registry import RegistryOptions


def verify(
    subject: str | os.PathLike[str] | Reference,
    options: VerifyOptions = VerifyOptions(),
    *,
    registry: RegistryOptions | None = None,
    progress: Progress | None = None,
) -> VerifyReport:
    """Verify a model on disk or in a store by reading all of its files.

    With `options.manifest_only`, only metadata is read. Linked files that are not fetched are not verified; the report
    says how many these are.

    Args:
        subject: A path, a model of Ollama (see `push`), or a reference.
        options: How to read the source, and whether to read the manifest only.
        registry: Credentials and TLS settings.
        progress: Receives progress events.

    Returns:
        What is proven now, with warnings about what is not.

    Raises:
        UsageError: `manifest_only` does not apply to the subject.
        SourceError: the source on disk is missing or cannot be read.
        IntegrityError: bytes do not match their expected digest, size or checksum; verification stops at the first.
        FormatError: the source breaks the rules of its format.
        LimitError: a document is larger than its limit.
        StoreError: the store does not have something, refuses it or cannot be reached.
    """
    found = subject_of(subject)
    if options.manifest_only:
        return _verify_manifest(found, registry)
    progress = progress or Progress()
    if not isinstance(found, Reference):
        with open_source(found, options, registry, linked=True) as (model, _):
            return _verify_source(str(found), model, Workers(options.concurrency, progress))
    return _verify_artifact(found, registry, options.concurrency, progress)


def _verify_source(source: str, model: Model, workers: Workers) -> VerifyReport:
    size = sum(file.size for file in model.files)
    workers.progress.plan("verifying", len(model.files), size)

    def check(file: ModelFile) -> str:
        task = Task("verifying", file.path, file.size)
        with reported(workers.progress, task):
            return LayerStream(Layer((file,), Encoding.RAW), workers.watch(task)).finish().diff_id

    workers.map(check, model.files)
    promised = sum(1 for file in model.files if file.sha256)
    proven = [f"{number(len(model.files), 'file')} ({number(size, 'byte')}) can be read to their end"]
    if promised:
        proven.append(f"{promised} of them {'has' if promised == 1 else 'have'} the sha256 that the format promises")
    if model.identity:
        proven.append(f"the identity is {model.identity}")
    return VerifyReport(
        source=source,
        identity=model.identity,
        file_count=len(model.files),
        size=size,
        proven=proven,
        linked_count=len(model.linked),
        warnings=[*model.warnings, *_unproven(model)],
    )


def _unproven(model: Model) -> list[str]:
    if not model.linked:
        return []
    return [
        f"files that are only linked: {len(model.linked)}, such as {show(model.linked[0].path)}; nothing is proven of "
        "their bytes; --fetch-links has them fetched and checked"
    ]


def _verify_artifact(
    reference: Reference, registry: RegistryOptions | None, concurrency: int, progress: Progress
) -> VerifyReport:
    with open_store(reference, registry) as store:
        fetched = fetch_artifact(store, reference)
        artifact = fetched.artifact
        for layer in artifact.layers:
            _check_diff_id(layer)
        form = format_named(artifact.model.format)
        sink = form.checker(artifact.model) if form else CheckSink(artifact.model)
        with sink:
            identity = restore(
                artifact.layers, store, sink, phase="verifying", concurrency=concurrency, progress=progress
            ).identity
        warnings = list(store.warnings)
    size = sum(layer.descriptor.size for layer in artifact.layers)
    layers, files = number(len(artifact.layers), "layer"), number(len(sink.hashes), "file")
    proven = [
        f"the manifest has the digest {fetched.descriptor.digest}",
        f"{layers} ({number(size, 'byte')}) and the config have the digests that the manifest names",
        f"{sink.listed} of {files} {'has' if sink.listed == 1 else 'have'} the sha256 that the manifest lists",
    ]
    if any(layer.diff_id for layer in artifact.layers):
        proven.append("every layer unpacks to the diff id that the config names")
    if identity:
        proven.append(f"the identity is {identity}: every row of its own manifest matches the bytes of the layers")
    return VerifyReport(
        source=str(reference.pinned(fetched.descriptor.digest)),
        identity=identity,
        digest=fetched.descriptor.digest,
        file_count=len(sink.hashes),
        size=size,
        proven=proven,
        warnings=warnings,
    )


def _verify_manifest(found: object, registry: RegistryOptions | None) -> VerifyReport:
    if not isinstance(found, Reference):
        raise UsageError(
            f"--manifest-only is for artifacts, and {found} is none", hint="leave it out, or give a reference"
        )
    from .thin import blobs_of

    with open_store(found, registry) as store:
        fetched = fetch_artifact(store, found)
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
        warnings=list(proof.warnings),
    )


def _check_diff_id(layer: StoredLayer) -> None:
    # Compressed layers are checked while they are unpacked; the others must not differ from their blob.
    if not layer.encoding.compressed and layer.diff_id not in (None, layer.descriptor.digest):
        raise IntegrityError(
            f"the config gives the diff id {layer.diff_id} for the uncompressed layer {layer.descriptor.digest}",
            hint="the artifact was built wrongly: publish it again",
        )
