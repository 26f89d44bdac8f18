# SPDX-License-Identifier: Apache-2.0
"""`inspect`: what a model is, from its metadata alone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..errors import FormatError
from ..oci import MEDIA_TYPE_DOCKER_INDEX, MEDIA_TYPE_INDEX, Manifest, Reference, parse_document, parse_reference
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

    No weight is read and no layer is fetched; `verify` does that. Of a companion the model is described that it belongs
    to.

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
    from .models import fetch_model
    from .relations import companions_of, referrers_to

    with open_store(found, registry) as store:
        fetched, notes = fetch_model(store, found)
        companions = companions_of(store, found, fetched)
        referrers = referrers_to(store, found, fetched.descriptor.digest, {each.reference for each in companions})
        warnings = [*notes, *store.warnings]
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
        size=sum({each.descriptor.digest: each.descriptor.size for each in artifact.layers}.values()),
        companions=companions,
        referrers=referrers,
        warnings=warnings,
    )


def raw_manifest(reference: str | Reference, *, config: bool = False, registry: RegistryOptions | None = None) -> bytes:
    """A manifest or index as it is stored, byte for byte, whatever it is of; of a companion its own.

    Args:
        reference: What it is called.
        config: Whether the config object of the manifest is wanted instead.
        registry: Credentials and TLS.

    Raises:
        NotFound: there is nothing of that name.
        FormatError: it has no config object.
        IntegrityError: the bytes do not have their digest.
        StoreError: the store refused something.
    """
    from ..stores.missing import naming_tags
    from ..stores.opening import open_store

    found = parse_reference(reference) if isinstance(reference, str) else reference
    with open_store(found, registry) as store:
        with naming_tags(store, found.version):
            descriptor, data = store.fetch_manifest(found.version)
        if not config:
            return data
        if descriptor.media_type in (MEDIA_TYPE_INDEX, MEDIA_TYPE_DOCKER_INDEX):
            raise FormatError(
                f"{found} is an index, which has no config", hint="leave out --config to see its manifests"
            )
        return store.read_blob(
            parse_document(Manifest, data, str(found), store.limits.manifest).config, store.limits.config
        )
