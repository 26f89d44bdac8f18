# SPDX-License-Identifier: Apache-2.0
"""`inspect`: what a model is, from its metadata alone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..oci import Reference
from .options import InspectOptions
from .reports import InspectReport, LayerReport, file_report, info_report, path_report
from .sources import open_source, subject_of

if TYPE_CHECKING:
    from ..stores.registry import RegistryOptions


def inspect(
    subject: str | os.PathLike[str] | Reference,
    options: InspectOptions = InspectOptions(),
    *,
    registry: RegistryOptions | None = None,
) -> InspectReport:
    """Describe a model or an artifact: metadata, files with role, size and sha256, layers, identity.

    No weight is read and no layer is fetched; `verify` does that.

    Args:
        subject: A path, a model of Ollama (see `push`), or a reference.
        options: How a source on disk is read.
        registry: Credentials and TLS.

    Raises:
        SourceError: the path or the model cannot be read.
        FormatError: it breaks the rules of its format, or is no model artifact.
        StoreError: the artifact cannot be had.
    """
    found = subject_of(subject)
    if not isinstance(found, Reference):
        with open_source(found, options, registry, linked=True) as (model, _):
            return path_report(str(found), model)
    from ..stores.opening import open_store
    from .artifacts import fetch_artifact

    with open_store(found, registry) as store:
        fetched = fetch_artifact(store, found)
        warnings = list(store.warnings)
    artifact = fetched.artifact
    return InspectReport(
        source=str(found.pinned(fetched.descriptor.digest)),
        kind="artifact",
        format=artifact.model.format,
        identity=artifact.model.identity,
        digest=fetched.descriptor.digest,
        dialect=artifact.dialect,
        artifact_type=artifact.manifest.artifact_type,
        info=info_report(artifact.model.info),
        origin=dict(artifact.model.origin),
        files=[file_report(each) for each in artifact.model.files],
        layers=[
            LayerReport(
                digest=each.descriptor.digest,
                size=each.descriptor.size,
                media_type=each.descriptor.media_type,
                diff_id=each.diff_id,
                file_count=len(each.files),
            )
            for each in artifact.layers
        ],
        annotations=artifact.manifest.annotations or {},
        warnings=warnings,
    )
