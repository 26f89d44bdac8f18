# SPDX-License-Identifier: Apache-2.0
"""`push`: a model on disk becomes an artifact in a store."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from .. import settings
from ..dialects.dialect import Dialect, dialect_of
from ..dialects.packing import Compress, Layers, folder_prefix
from ..dialects.writing import PlanOptions, draft
from ..errors import UsageError
from ..formats.base import ReadOptions
from ..model import Model, Role
from ..oci import Reference, parse_reference
from ..stores.opening import open_store
from ..stores.registry.hosts import Hosts
from ..transfer import DigestCache, Progress, publish
from .artifacts import stored_layers
from .pushed import PushReport, pushed_layers
from .sources import mount_places, open_source, source_of

if TYPE_CHECKING:
    from ..stores.registry import RegistryOptions
    from .image import ImageCompanion
    from .ollama import Companion, OllamaSource


def push(
    source: str | os.PathLike[str],
    target: str | Reference,
    *,
    layers: Layers | str | None = None,
    compress: Compress | str = Compress.NONE,
    dialect: Dialect | str = Dialect.CNAI,
    exact: bool = False,
    annotations: Mapping[str, str] | None = None,
    created: datetime | None = None,
    fetch_links: bool = False,
    links_hosts: Sequence[str] = (),
    roles: Sequence[tuple[str, Role | str]] = (),
    strip_from: bool = False,
    also: Sequence[str] = (),
    platforms: Sequence[str] | None = None,
    prefix: str = "",
    max_layers: int | None = None,
    mount_from: Sequence[str] = (),
    cache: bool = True,
    registry: RegistryOptions | None = None,
    concurrency: int = settings.CONCURRENCY,
    progress: Progress | None = None,
) -> PushReport:
    """Publish a model as an artifact.

    Args:
        source: The path of a model archive or folder; `ollama:NAME[:TAG]` for a model in the local Ollama store;
            `ollama://HOST/NAMESPACE/NAME[:TAG]` for one in a registry that speaks Ollama's dialect.
        target: `HOST[:PORT]/REPOSITORY[:TAG]`, `oci:DIR[:TAG]` or `oci-archive:FILE[:TAG]`; the tag defaults to
            `latest`.
        layers: `tar`, `raw` or `raw-files`; see `ocibridge.dialects.packing.Layers`. None is `tar`, but `raw-files` for
            a model of Ollama, so that its blobs keep their digests, unless `compress` or `dialect` wants tar.
        compress: `none`, `gzip` or `zstd`, for tar layers.
        dialect: `cnai` (seed 001), `draft` (seed 003, tar layers only) or `modelpack` (the current specification).
        exact: Whether the archive is carried whole, as one raw layer, so that a pull gives back its very bytes.
        annotations: Annotations of the manifest.
        created: Creation time to record; else `SOURCE_DATE_EPOCH`; else none, so that digests do not depend on the day.
        fetch_links: Whether files that a carton only links to are fetched.
        links_hosts: Hosts that they may be fetched from; empty allows any.
        roles: Globs of a model folder and the roles of the files that they match; the first match decides.
        strip_from: Whether the `from` fields of an Ollama manifest, which may hold local paths, are left out.
        also: `ollama` also publishes the original Ollama manifest, under the tag `<tag>-ollama`; `image` an OCI image
            that pods can mount, under `<tag>-image`: of the same layers where they are tar.
        platforms: `OS/ARCHITECTURE[/VARIANT]` of the image; None is `ocibridge.settings.PLATFORMS`.
        prefix: Folder that all files are put into inside the layers, such as `models/`; a pull takes it off again.
        max_layers: Tar layers that there may be; beyond them neighbouring weights share one. None is
            `ocibridge.settings.MAX_LAYERS`.
        mount_from: Repositories of the target's registry that may hold the blobs already, which then do not move.
        cache: Whether digests of unchanged files, and notes on unfinished uploads, are kept in `settings.cache_dir`.
        registry: Credentials and TLS, for the target; for the source where the target is no registry.
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
    found = source_of(source)
    chosen = Layers(layers) if layers else _default_layers(found, Compress(compress), Dialect(dialect))
    if exact:
        chosen = _whole(found, layers, Compress(compress))
    options = PlanOptions(
        chosen,
        Compress(compress),
        dict(annotations or {}),
        created or _source_date(),
        dialect_of(dialect, bare_raw=chosen is Layers.RAW),
        folder_prefix(prefix),
        settings.MAX_LAYERS if max_layers is None else max_layers,
    )
    if max_layers is not None and chosen is Layers.RAW_FILES and "image" not in also:
        raise UsageError("--max-layers is for tar layers", hint="leave it out, or add --layers tar")
    if strip_from and isinstance(found, Path):
        raise UsageError("--strip-from is for models of Ollama", hint="leave it out, or name the source ollama:NAME")
    _check_also(also, options.layers)
    image = _image_companion(also, platforms, reference)
    if options.layers is Layers.RAW_FILES and options.compress is not Compress.NONE:
        raise UsageError("--compress is for tar layers", hint="leave out one of --compress and --layers raw-files")
    places = mount_places(reference, mount_from)
    reading = ReadOptions(
        fetch_links,
        tuple(links_hosts),
        tuple((glob, Role(role)) for glob, role in roles),
        strip_from=strip_from,
        keep_archive=exact,
    )
    with ExitStack() as stack:
        hosts = stack.enter_context(Hosts())
        model, home = stack.enter_context(open_source(found, reading, registry, reference, hosts))
        beside = _ollama_companion(model, reference) if "ollama" in also else None
        plan = draft(model, options)
        mounts = [stack.enter_context(open_store(each, registry, hosts=hosts)) for each in places]
        notes = settings.cache_dir() if cache else None
        store = stack.enter_context(open_store(reference, registry, hosts=hosts, create=True, notes=notes))
        digests = stack.enter_context(DigestCache(notes))
        done = publish(
            plan,
            store,
            reference.version,
            concurrency=concurrency,
            progress=progress,
            mount_from=[home, *mounts] if home else mounts,
            cache=digests,
            known=partial(stored_layers, store, reference),
        )
        extra = [beside.publish(store)] if beside else []
        if image:
            near = {} if home else {file.path: file.content for file in model.files}
            extra.append(
                image.publish(
                    store,
                    done.manifest,
                    near,
                    max_layers=options.max_layers,
                    cache=digests,
                    concurrency=concurrency,
                    progress=progress,
                )
            )
        warnings = [*model.warnings, *store.warnings]
    return PushReport(
        reference=str(reference.pinned(done.manifest.digest)),
        digest=done.manifest.digest,
        tag=reference.version,
        identity=model.identity,
        format=model.format,
        layers=pushed_layers(done),
        also=extra,
        warnings=warnings,
    )


def _default_layers(source: Path | OllamaSource, compress: Compress, dialect: Dialect) -> Layers:
    tar = isinstance(source, Path) or compress is not Compress.NONE or dialect is Dialect.DRAFT
    return Layers.TAR if tar else Layers.RAW_FILES


def _whole(source: Path | OllamaSource, layers: Layers | str | None, compress: Compress) -> Layers:
    """The layers of an archive that is carried whole."""
    if not isinstance(source, Path) or source.is_dir():
        raise UsageError(f"--exact is for archives, and {source} is none", hint="leave it out")
    if compress is not Compress.NONE or (layers and Layers(layers) is Layers.TAR):
        raise UsageError(
            "--exact carries the archive as it is, neither compressed nor in a tar layer",
            hint="leave out --compress and --layers",
        )
    return Layers(layers or Layers.RAW_FILES)


def _ollama_companion(model: Model, reference: Reference) -> Companion:
    from .ollama import companion

    return companion(model, reference)


def _image_companion(
    also: Sequence[str], platforms: Sequence[str] | None, reference: Reference
) -> ImageCompanion | None:
    if "image" in also:
        from .image import companion_of

        return companion_of(reference, settings.PLATFORMS if platforms is None else platforms)
    if platforms is not None:
        raise UsageError("--platform is for an image beside the artifact", hint="add --also image, or leave it out")
    return None


def _check_also(also: Sequence[str], layers: Layers) -> None:
    for kind in also:
        if kind not in settings.ALSO:
            raise UsageError(f"{kind!r} cannot be published also", hint=f"give one of: {', '.join(settings.ALSO)}")
    if "ollama" in also and layers is not Layers.RAW_FILES:
        raise UsageError(
            "--also ollama needs every blob of the model as a layer of its own",
            hint="add --layers raw-files, and leave out --compress",
        )


def _source_date() -> datetime | None:
    seconds = settings.source_date_epoch()
    return None if seconds is None else datetime.fromtimestamp(seconds, timezone.utc)
