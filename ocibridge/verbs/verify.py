# SPDX-License-Identifier: Apache-2.0
"""`verify`: every byte is read and checked, and the report says what is proven by it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .. import settings
from ..errors import IntegrityError
from ..formats.base import ReadOptions
from ..layers import Encoding, Layer, StoredLayer, describe
from ..model import Model, ModelFile
from ..oci import Reference
from ..transfer import Progress, Task, Workers, reported, restore
from .artifacts import fetch_artifact
from .reports import VerifyReport
from .sources import checker, open_store, path_or_reference, read_model

if TYPE_CHECKING:
    from ..stores.registry import RegistryOptions


def verify(
    subject: str | os.PathLike[str] | Reference,
    *,
    fetch_links: bool = False,
    links_hosts: Sequence[str] = (),
    registry: RegistryOptions | None = None,
    concurrency: int = settings.CONCURRENCY,
    progress: Progress | None = None,
) -> VerifyReport:
    """Read every byte of a model, on disk or in a store, and check it.

    Args:
        subject: A path, or a reference.
        fetch_links: Whether files that a carton only links to are fetched.
        links_hosts: Hosts that they may be fetched from; empty allows any.
        registry: Credentials and TLS.
        concurrency: Files or blobs that are read at the same time.
        progress: Told what happens.

    Returns:
        What is now proven.

    Raises:
        IntegrityError: the first thing that is not what was promised.
        FormatError: the source breaks the rules of its format.
        StoreError: something cannot be had.
    """
    found = path_or_reference(os.fspath(subject)) if isinstance(subject, str | os.PathLike) else subject
    progress = progress or Progress()
    if isinstance(found, Path):
        model = read_model(found, ReadOptions(fetch_links, tuple(links_hosts)))
        return _verify_path(found, model, Workers(concurrency, progress))
    return _verify_artifact(found, registry, concurrency, progress)


def _verify_path(path: Path, model: Model, workers: Workers) -> VerifyReport:
    size = sum(file.size for file in model.files)
    workers.progress.plan("verifying", len(model.files), size)

    def check(file: ModelFile) -> str:
        task = Task("verifying", file.path, file.size)
        with reported(workers.progress, task):
            # As the only file of a tar layer, a file is always read, whatever its format promises.
            return describe(Layer((file,), Encoding.TAR), workers.watch(task)).files[0]

    workers.map(check, model.files)
    promised = sum(1 for file in model.files if file.sha256)
    proven = [f"{len(model.files)} files ({size} bytes) can be read to their end"]
    if promised:
        proven.append(f"{promised} of them have the sha256 that the format promises")
    if model.identity:
        proven.append(f"the identity is {model.identity}")
    return VerifyReport(
        subject=str(path),
        identity=model.identity,
        files=len(model.files),
        size=size,
        proven=proven,
        warnings=list(model.warnings),
    )


def _verify_artifact(
    reference: Reference, registry: RegistryOptions | None, concurrency: int, progress: Progress
) -> VerifyReport:
    with open_store(reference, registry) as store:
        fetched = fetch_artifact(store, reference)
        artifact = fetched.artifact
        for layer in artifact.layers:
            _check_diff_id(layer)
        sink = checker(artifact.model)
        identity = restore(artifact.layers, store, sink, phase="verifying", concurrency=concurrency, progress=progress)
    size = sum(layer.descriptor.size for layer in artifact.layers)
    proven = [
        f"the manifest has the digest {fetched.descriptor.digest}",
        f"{len(artifact.layers)} layers ({size} bytes) and the config have the digests that the manifest names",
        f"{sink.listed} of {len(sink.hashes)} files have the sha256 that the manifest lists",
    ]
    if any(layer.diff_id for layer in artifact.layers):
        proven.append("every layer unpacks to the diff id that the config names")
    if identity:
        proven.append(f"the identity is {identity}: every row of its MANIFEST matches the bytes of the layers")
    return VerifyReport(
        subject=str(reference.pinned(fetched.descriptor.digest)),
        identity=identity,
        digest=fetched.descriptor.digest,
        files=len(sink.hashes),
        size=size,
        proven=proven,
    )


def _check_diff_id(layer: StoredLayer) -> None:
    # Compressed layers are checked while they are unpacked; the others must not differ from their blob.
    if not layer.encoding.compressed and layer.diff_id not in (None, layer.descriptor.digest):
        raise IntegrityError(
            f"the config gives the diff id {layer.diff_id} for the uncompressed layer {layer.descriptor.digest}",
            hint="the artifact was built wrongly: publish it again",
        )
