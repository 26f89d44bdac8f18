# SPDX-License-Identifier: Apache-2.0
"""`push`: a model on disk becomes an artifact in a store."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .. import settings
from ..dialects.annotations import refuse_reserved
from ..dialects.choices import Compress, Layers
from ..dialects.packing import folder_prefix
from ..dialects.registry import dialect_named
from ..dialects.writing import PlanOptions, plan_manifest
from ..errors import UsageError
from ..formats.folder import FolderReadOptions
from ..layers import Encoding
from ..model import Model
from ..oci import LayoutReference, Reference
from ..options import refuse_set
from ..stores.opening import open_store
from ..stores.registry.hosts import Hosts
from ..transfer import DigestCache, Progress, publish
from ..transfer.session import CopySession
from .artifacts import stored_layers
from .companions import IMAGE, companion_reference, companion_suffixes
from .options import FolderOptions, PushOptions, SelectOptions
from .pushplan import PushPlan, push_plan
from .reports import PushReport, pushed_layers
from .selection import Selection
from .sensitive import refuse_sensitive
from .sources import Source, mount_places, open_source, reading_of, source_of
from .tags import add_tags, parse_tags

if TYPE_CHECKING:
    from ..stores.registry import RegistryOptions
    from .image import ImageCompanion
    from .original import OriginalManifest


def push(
    source: str | os.PathLike[str],
    target: str | Reference,
    options: PushOptions = PushOptions(),
    *,
    registry: RegistryOptions | None = None,
    progress: Progress | None = None,
) -> PushReport:
    """Publish a model as an artifact.

    Args:
        source: The path of a model archive or folder; `ollama:NAME[:TAG]` for a model in the local Ollama store;
            `ollama://HOST/NAMESPACE/NAME[:TAG]` for one in a registry that speaks Ollama's dialect.
        target: `HOST[:PORT]/REPOSITORY[:TAG]`, `oci:DIR[:TAG]` or `oci-archive:FILE[:TAG]`; the tag defaults to
            `latest`, and there may be several: `:v1,v1.2`.
        options: How it is packed and sent.
        registry: Credentials and TLS, for the target; for the source where the target is no registry.
        progress: Receives progress events.

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
    request = _request(source, target, options)
    options, reference = request.options, request.target
    with ExitStack() as stack:
        hosts = stack.enter_context(Hosts())
        read, home = stack.enter_context(
            open_source(request.source, options, registry, reference, hosts, exact=options.exact)
        )
        model = request.model(read)
        manifests = [_original(each, model, reference) for each in request.originals]
        plan = plan_manifest(model, request.planned)
        mounts = [stack.enter_context(open_store(each, registry, hosts=hosts)) for each in request.places]
        notes = settings.cache_dir() if options.cache else None
        store = stack.enter_context(open_store(reference, registry, hosts=hosts, create=True, notes=notes))
        digests = stack.enter_context(DigestCache(notes))
        session = CopySession()
        done = publish(
            plan,
            store,
            reference.version,
            session=session,
            concurrency=options.concurrency,
            progress=progress,
            mount_from=[home, *mounts] if home else mounts,
            cache=digests,
            known=partial(stored_layers, store, reference),
        )
        extra = [each.publish(store, session) for each in manifests]
        if request.image:
            near = {} if home else {file.path: file.content for file in model.files}
            extra.append(
                request.image.publish(
                    store,
                    done.manifest,
                    near,
                    max_layers=request.planned.max_layers,
                    session=session,
                    cache=digests,
                    concurrency=options.concurrency,
                    progress=progress,
                )
            )
        with store.batch():
            for each in extra:
                add_tags(store, each.digest, [tag + request.suffixes[each.kind] for tag in request.tags[1:]])
            add_tags(store, done.manifest.digest, request.tags[1:])
        warnings = [*model.warnings, *store.warnings]
    return PushReport(
        source=str(request.source),
        target=str(reference.at(reference.version)),
        reference=str(reference.pinned(done.manifest.digest)),
        digest=done.manifest.digest,
        tag=request.tags[0],
        tags=list(request.tags),
        identity=model.identity,
        format=model.format,
        layers=pushed_layers(done),
        left_out_count=len(model.left_out),
        also=[
            each.model_copy(update={"tags": [tag + request.suffixes[each.kind] for tag in request.tags]})
            for each in extra
        ],
        warnings=warnings,
    )


def plan_push(
    source: str | os.PathLike[str],
    target: str | Reference,
    options: PushOptions = PushOptions(),
    *,
    registry: RegistryOptions | None = None,
) -> PushPlan:
    """Return what `push` would publish, with the same arguments (`push --dry-run`).

    No weight is read, apart from its header, and the target is not asked.

    Raises:
        OcibridgeError: see `push`.
    """
    request = _request(source, target, options)
    with ExitStack() as stack:
        hosts = stack.enter_context(Hosts())
        read, _ = stack.enter_context(
            open_source(request.source, request.options, registry, request.target, hosts, exact=options.exact)
        )
        model = request.model(read)
        for each in request.originals:
            _original(each, model, request.target)
        plan = plan_manifest(model, request.planned)
        return push_plan(
            str(request.source),
            str(request.target.at(request.tags[0])),
            model,
            plan,
            request.tags,
            {kind: [tag + suffix for tag in request.tags] for kind, suffix in request.suffixes.items()},
        )


class _PushRequest(NamedTuple):
    """The arguments of a push, checked as far as can be without the source.

    Attributes:
        source: The source.
        options: Its options, with those of the source's format.
        target: The target, with its first tag.
        tags: All tags.
        planned: How the artifact is built.
        suffixes: Of the tags of companions, by kind.
        image: The companion image, if it is wanted.
        places: Repositories that may hold the blobs already.
    """

    source: Source
    options: PushOptions
    target: Reference
    tags: tuple[str, ...]
    planned: PlanOptions
    suffixes: Mapping[str, str]
    image: ImageCompanion | None
    places: Sequence[Reference]

    @property
    def originals(self) -> list[str]:
        """Kinds of companions that are the model's own manifest."""
        return [each for each in self.suffixes if each != IMAGE]

    def model(self, model: Model) -> Model:
        """Return the model if it may be published.

        Raises:
            SourceError: it has files that look like secrets.
        """
        if not self.options.allow_sensitive:
            refuse_sensitive(model)
        return model


def _request(source: str | os.PathLike[str], target: str | Reference, options: PushOptions) -> _PushRequest:
    """Check the arguments of a push.

    Raises:
        UsageError: they do not fit together.
        SourceError: there is nothing at the path.
    """
    reference, tags = parse_tags(target) if isinstance(target, str) else (target, (target.version,))
    if reference.digest:
        raise UsageError("a push target has a tag, not a digest", hint="leave out the part from '@' on")
    prefix = folder_prefix(options.prefix)
    refuse_reserved(options.annotations or {})
    found = source_of(source)
    layers = _whole(found, options) if options.exact else _layers(found, options)
    planned = PlanOptions(
        layers,
        Compress(options.compress),
        dict(options.annotations or {}),
        options.created or _source_date(),
        dialect_named(options.dialect),
        prefix,
        options.max_layers or settings.MAX_LAYERS,
        options.limits,
    )
    if options.max_layers is not None and layers is Layers.RAW_FILES and IMAGE not in options.also:
        raise UsageError("--max-layers is for tar layers", hint="leave it out, or add --layers tar")
    options = _selecting(found, options, reference)
    suffixes = {each: companion_suffixes()[each] for each in dict.fromkeys(options.also)}
    originals = [each for each in suffixes if each != IMAGE]
    if originals and layers is not Layers.RAW_FILES:
        raise UsageError(
            f"--also {originals[0]} needs every blob of the model as a layer of its own",
            hint="add --layers raw-files, and leave out --compress",
        )
    image = _image_companion(options, reference)
    for tag, suffix in product(tags, suffixes.values()):
        companion_reference(reference.at(tag), suffix)
    if layers is Layers.RAW_FILES and planned.compress is not Compress.NONE:
        raise UsageError("--compress is for tar layers", hint="leave out one of --compress and --layers raw-files")
    places = mount_places(reference, options.mount_from)
    return _PushRequest(found, options, reference, tags, planned, suffixes, image, places)


def _selecting(source: Source, options: PushOptions, target: Reference) -> PushOptions:
    """The options with those of the source's format, which say what of a folder is taken.

    Raises:
        UsageError: an option is for another kind of source.
    """
    reading = reading_of(source, options)
    Selection(options)  # refuses what is no glob
    if isinstance(reading, FolderReadOptions) and isinstance(source.place, Path) and source.place.is_dir():
        place = target.path if isinstance(target, LayoutReference) else None
        reading = replace(reading, include=options.include, exclude=options.exclude, target=place)
    else:
        refuse_set(options, SelectOptions, f"folders, and {source} is none")
        refuse_set(options, FolderOptions, f"folders, and {source} is none")
    return replace(options, reading=reading)


def _layers(source: Source, options: PushOptions) -> Layers:
    if options.layers:
        return Layers(options.layers)
    compressed = options.compress is not Compress.NONE
    has_raw = Encoding.RAW in dialect_named(options.dialect).encodings
    tar = not source.format.raw_files or compressed or not has_raw
    return Layers.TAR if tar else Layers.RAW_FILES


def _whole(source: Source, options: PushOptions) -> Layers:
    """The layers of an archive that is stored whole."""
    if not source.format.exact or (isinstance(source.place, Path) and source.place.is_dir()):
        raise UsageError(f"--exact is for archives, and {source} is none", hint="leave it out")
    if options.compress is not Compress.NONE or options.layers is Layers.TAR:
        raise UsageError(
            "--exact contains the archive as it is, neither compressed nor in a tar layer",
            hint="leave out --compress and --layers",
        )
    return Layers(options.layers or Layers.RAW_FILES)


def _original(kind: str, model: Model, reference: Reference) -> OriginalManifest:
    from .original import original_manifest

    return original_manifest(kind, model, reference)


def _image_companion(options: PushOptions, reference: Reference) -> ImageCompanion | None:
    if IMAGE in options.also:
        from .image import companion_of

        return companion_of(reference, settings.PLATFORMS if options.platforms is None else options.platforms)
    if options.platforms is not None:
        raise UsageError("--platform is for the companion image", hint="add --also image, or leave it out")
    return None


def _source_date() -> datetime | None:
    seconds = settings.source_date_epoch()
    return None if seconds is None else datetime.fromtimestamp(seconds, timezone.utc)
