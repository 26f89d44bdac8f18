# SPDX-License-Identifier: Apache-2.0
"""`push`: a model on disk becomes an artifact in a store."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from .. import settings
from ..dialects.packing import Compress, Layers
from ..dialects.writing import DraftOptions, draft
from ..errors import UsageError
from ..formats.base import ReadOptions
from ..oci import Reference, parse_reference
from ..transfer import Progress, publish
from .reports import PushedLayer, PushReport
from .sources import open_store, read_model

if TYPE_CHECKING:
    from ..stores.registry import RegistryOptions


def push(
    source: str | os.PathLike[str],
    target: str | Reference,
    *,
    layers: Layers | str = Layers.TAR,
    compress: Compress | str = Compress.NONE,
    annotations: Mapping[str, str] | None = None,
    created: datetime | None = None,
    fetch_links: bool = False,
    links_hosts: Sequence[str] = (),
    registry: RegistryOptions | None = None,
    concurrency: int = settings.CONCURRENCY,
    progress: Progress | None = None,
) -> PushReport:
    """Publish a model as a CNAI artifact (seed 001).

    Args:
        source: A carton file or an unpacked carton folder.
        target: `HOST[:PORT]/REPOSITORY[:TAG]`, `oci:DIR[:TAG]` or `oci-archive:FILE[:TAG]`; the tag defaults to
            `latest`.
        layers: `tar`, `raw` or `raw-files`; see `ocibridge.dialects.packing.Layers`.
        compress: `none`, `gzip` or `zstd`, for tar layers.
        annotations: Annotations of the manifest.
        created: Creation time to record; else `SOURCE_DATE_EPOCH`; else none, so that digests do not depend on the day.
        fetch_links: Whether files that a carton only links to are fetched.
        links_hosts: Hosts that they may be fetched from; empty allows any.
        registry: Credentials and TLS.
        concurrency: Blobs that move at the same time.
        progress: Told what happens.

    Returns:
        The pinned reference, the identity of the model, and what happened to each layer.

    Raises:
        UsageError: the arguments do not fit together.
        SourceError: the source cannot be read.
        FormatError: the source breaks the rules of its format.
        IntegrityError: a file is not what its format promises.
        StoreError: the target refused something.

    Example:
        >>> push("digits.carton", "localhost:5000/models/digits:v1").identity  # doctest: +SKIP
        'carton:09b744842c693b5c529bece22e17ec602403a2ed8dc786b4fa7e57e038062471'
    """
    reference = parse_reference(target) if isinstance(target, str) else target
    if reference.digest:
        raise UsageError("a push target has a tag, not a digest", hint="leave out the part from '@' on")
    options = DraftOptions(Layers(layers), Compress(compress), dict(annotations or {}), created or _source_date())
    if options.layers is Layers.RAW_FILES and options.compress is not Compress.NONE:
        raise UsageError("--compress is for tar layers", hint="leave out one of --compress and --layers raw-files")
    model = read_model(Path(source), ReadOptions(fetch_links, tuple(links_hosts)))
    plan = draft(model, options)
    with open_store(reference, registry, create=True) as store:
        done = publish(plan, store, reference.version, concurrency=concurrency, progress=progress)
    return PushReport(
        reference=str(reference.pinned(done.manifest.digest)),
        digest=done.manifest.digest,
        tag=reference.version,
        identity=model.identity,
        format=model.format,
        layers=[
            PushedLayer(
                digest=each.descriptor.digest,
                size=each.descriptor.size,
                media_type=each.descriptor.media_type,
                action=each.action,
            )
            for each in done.layers
        ],
        warnings=list(model.warnings),
    )


def _source_date() -> datetime | None:
    seconds = settings.source_date_epoch()
    return None if seconds is None else datetime.fromtimestamp(seconds, timezone.utc)
