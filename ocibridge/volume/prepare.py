# SPDX-License-Identifier: Apache-2.0
"""`volume prepare`: publish a companion image of an artifact, which pods can mount."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from .. import settings
from ..dialects.image import parse_platforms
from ..dialects.packing import check_whiteout
from ..errors import FormatError, IntegrityError, NotFound, UsageError
from ..layers import StoredLayer, without_prefix
from ..oci import Reference, parse_reference
from ..operations.artifacts import Fetched, fetch_artifact
from ..operations.companions import companion_reference
from ..operations.image import publish_image
from ..operations.reports import PlatformReport, PrepareReport, layer_reports
from ..operations.sources import other_side, stored_reference
from ..paths import check_path, show
from ..stores.base import Store
from ..stores.opening import open_store
from ..stores.registry.hosts import Hosts
from ..transfer import DigestCache, Progress, Task, Workers, reported
from .entries import contents
from .options import PrepareOptions

if TYPE_CHECKING:
    from ..stores.registry import RegistryOptions


def volume_prepare(
    source: str | Reference,
    target: str | Reference | None = None,
    options: PrepareOptions = PrepareOptions(),
    *,
    registry: RegistryOptions | None = None,
    progress: Progress | None = None,
) -> PrepareReport:
    """Publish an OCI image with the layers of an artifact, under the tag of the artifact with a suffix.

    Tar layers are shared and not transferred. Raw layers, which no runtime unpacks, are wrapped in tar while they are
    streamed from store to store. Layers whose files no manifest lists are read, to check that they can be mounted.

    Args:
        source: The artifact, by tag, or by tag and digest; by digest alone only with a `target`.
        target: Repository and tag for the image, to which the suffix is added; None is those of the artifact.
        options: Platforms, suffix and layers of the image; the layers are the same for all platforms.
        registry: Credentials and TLS, for the target, and for a source on the same host or without a target.
        progress: Receives progress events.

    Returns:
        The pinned reference that a pod mounts, and the action for each layer.

    Raises:
        UsageError: the arguments do not fit together.
        NotFound: there is no such artifact.
        FormatError: it is no model, or cannot be mounted.
        LimitError: it has more layers than a mount supports.
        IntegrityError: the bytes of a layer do not match its digest.
        StoreError: a store refused a request.

    Example:
        >>> volume_prepare("localhost:5000/models/digits:v1").tag  # doctest: +SKIP
        'v1-image'
    """
    reference = stored_reference(source)
    goal = reference if target is None else (parse_reference(target) if isinstance(target, str) else target)
    place = companion_reference(_tagged(goal, target is None), options.suffix)
    wanted = parse_platforms(settings.PLATFORMS if options.platforms is None else options.platforms)
    progress = progress or Progress()
    with ExitStack() as stack:
        same = goal.name == reference.name
        hosts = stack.enter_context(Hosts())
        notes = settings.cache_dir() if options.cache else None
        store = stack.enter_context(
            open_store(reference, other_side(reference, goal, registry), hosts=hosts, write=same, notes=notes)
        )
        checked = checked_artifact(store, reference, options.concurrency, progress)
        home = store
        if not same:
            home = stack.enter_context(open_store(goal, registry, hosts=hosts, create=True, notes=notes))
        return prepare_into(
            checked,
            store,
            reference,
            home,
            place,
            wanted,
            max_layers=options.max_layers or settings.MAX_LAYERS,
            cache=stack.enter_context(DigestCache(notes)),
            concurrency=options.concurrency,
            progress=progress,
        )


def checked_artifact(store: Store, reference: Reference, concurrency: int, progress: Progress) -> Fetched:
    """Fetch an artifact from an open store, and check that it can be mounted.

    Raises:
        OcibridgeError: see `volume_prepare`.
    """
    return _checked(fetch_artifact(store, reference), store, concurrency, progress)


def prepare_into(
    fetched: Fetched,
    store: Store,
    reference: Reference,
    home: Store,
    place: Reference,
    platforms: Sequence[str],
    **options: Any,
) -> PrepareReport:
    """Publish the image of an artifact, from one open store to another, or to the same.

    Args:
        fetched: The artifact, from `checked_artifact`.
        store: Its store.
        reference: Its reference.
        home: Store for the image; may be `store`.
        place: Reference of the image, with a tag.
        platforms: See `volume_prepare`.
        options: See `publish_image`.

    Raises:
        OcibridgeError: see `volume_prepare`.
    """
    done = publish_image(fetched, store, home, place.version, platforms=parse_platforms(platforms), **options)
    warnings = list(dict.fromkeys([*_missing_subject(home, fetched), *store.warnings, *home.warnings]))
    image = done.image
    return PrepareReport(
        source=str(reference.pinned(fetched.descriptor.digest)),
        target=str(place.at(place.version)),
        reference=str(place.pinned(image.descriptor.digest)),
        digest=image.descriptor.digest,
        tag=place.version,
        platforms=[PlatformReport(platform=each.platform, digest=each.descriptor.digest) for each in image.platforms],
        layers=layer_reports(done.layers),
        warnings=warnings,
    )


def _tagged(goal: Reference, same: bool) -> Reference:
    """The reference of the image, with a tag and without a digest."""
    if goal.digest and not same:
        raise UsageError("the target of an image has a tag, not a digest", hint="leave out the part from '@' on")
    if goal.digest and not goal.tag:
        raise UsageError(
            "the image needs a tag, and the reference has a digest only",
            hint="write REPOSITORY:TAG, or REPOSITORY:TAG@sha256:…, or name a target with a tag",
        )
    return goal.at(goal.tag)


def _checked(fetched: Fetched, store: Store, concurrency: int, progress: Progress) -> Fetched:
    """Check that the layers have no entries that a runtime would interpret, such as whiteouts."""
    layers = list(fetched.artifact.layers)
    for layer in layers:
        for file in layer.members:
            check_whiteout(file.path)
    unlisted = [number for number, layer in enumerate(layers) if not layer.files or _unknown(layer)]
    progress.plan("reading", len(unlisted), sum(layers[number].descriptor.size for number in unlisted))
    workers = Workers(concurrency, progress, [store])

    def read(number: int) -> StoredLayer:
        task = Task("reading", layers[number].descriptor.digest, layers[number].descriptor.size)
        with reported(progress, task):
            return _read(layers[number], store)

    for number, layer in zip(unlisted, workers.map(read, unlisted), strict=True):
        layers[number] = layer
    return fetched._replace(artifact=fetched.artifact._replace(layers=tuple(layers)))


def _unknown(layer: StoredLayer) -> bool:
    """Return whether the diff id of a compressed layer is unknown; an image needs it."""
    return layer.encoding.compressed and layer.diff_id is None


def _read(layer: StoredLayer, store: Store) -> StoredLayer:
    """Read and check the entries of a layer; return the layer with its diff id."""
    owner, descriptor = f"the layer {layer.descriptor.digest}", layer.descriptor
    found = contents(store, descriptor, whole=layer.encoding.compressed)
    if found.entries is None and found.archive:
        found = contents(store, descriptor, whole=True)
    if found.entries is None:
        raise FormatError(f"{owner} is no tar archive", hint="the artifact was built wrongly: publish it again")
    for entry in found.entries:
        path = entry.path.removeprefix("./")
        check_whiteout(path)
        if entry.kind == "file":
            without_prefix(check_path(path, owner), layer.prefix, owner)
        elif entry.kind != "folder":
            raise FormatError(
                f"{owner}: {show(path)} is a {entry.kind}, and neither a file nor a folder",
                hint="publish the model with plain files",
            )
    diff_id = found.diff_id or descriptor.digest
    if layer.encoding.compressed and layer.diff_id not in (None, diff_id):
        raise IntegrityError(
            f"{owner} unpacks to {diff_id}, its config says {layer.diff_id}",
            hint="the artifact was built wrongly: publish it again",
        )
    return layer._replace(diff_id=diff_id)


def _missing_subject(home: Store, fetched: Fetched) -> list[str]:
    try:
        home.resolve(fetched.descriptor.digest)
    except NotFound:
        return [
            f"{home.name} has no manifest {fetched.descriptor.digest}, which the image refers to: copy the model there "
            "too, so that tools find the one by the other"
        ]
    return []
