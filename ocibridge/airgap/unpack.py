# SPDX-License-Identifier: Apache-2.0
"""Restore an archive of many references to a registry or a layout."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import FormatError, NotFound, StoreError, UsageError
from ..oci import ArchiveReference, Descriptor, RegistryReference, parse_reference, without_scheme
from ..oci.manifest import ANNOTATION_REF_NAME
from ..paths import show
from ..report import Moves
from ..stores.archive import ArchiveStore
from ..stores.base import Store
from ..stores.imageindex import Entry
from ..stores.layout import LayoutStore
from ..stores.opening import open_store
from ..stores.registry.hosts import Hosts
from ..stores.view import RepositoryView
from ..transfer import Progress, Task
from ..transfer.copygraph import CopyResult, GraphCopier, GraphOptions
from ..transfer.progress import Within, reported
from ..transfer.session import CopySession
from ..transfer.workers import Workers
from .contents import ReferenceContents, contents_of
from .inventory import Inventory
from .names import Destination, Name, parse_destination, parse_name
from .options import UnpackOptions
from .pack import ANNOTATION_BLOBS_AT, archive_path
from .reports import UnpackedReference, UnpackReport

if TYPE_CHECKING:
    from ..stores.registry import RegistryOptions

_PHASE = "unpacking"
_MOST_PLACES = 1000


@dataclass(frozen=True, slots=True)
class _Root:
    """A name of the archive, and its target.

    Attributes:
        name: The name.
        digest: Digest of its manifest.
        repository: `HOST/REPOSITORY` of the target, or the repository of the name for a layout.
        contents: Its manifests and blobs.
        places: Repositories of the target that may have the blobs that the archive lacks.
    """

    name: Name
    digest: str
    repository: str
    contents: ReferenceContents
    places: tuple[str, ...]

    @property
    def reference(self) -> str:
        """The reference at the target."""
        if self.name.tag is None:
            return f"{self.repository}@{self.digest}"
        return f"{self.repository}:{self.name.tag}" if self.repository else self.name.tag


def unpack(
    source: str | os.PathLike[str] | ArchiveReference,
    target: str,
    options: UnpackOptions = UnpackOptions(),
    *,
    references: Sequence[str] = (),
    registry: RegistryOptions | None = None,
    progress: Progress | None = None,
) -> UnpackReport:
    """Restore what `pack` has written; any OCI archive with tags will do.

    `HOST/REPOSITORY:TAG` becomes `TARGET/REPOSITORY:TAG`. Volumes are checked first, and the target is asked for the
    blobs that an incremental archive lacks before any tag is written. Another call resumes an interrupted restore.

    Args:
        source: The archive, as a path or `oci-archive:FILE`; for volumes, `FILE` stands for `FILE.001` and so on.
        target: `HOST[/PREFIX]`, or `oci:DIR`, a layout in which all names are kept.
        options: How it is restored.
        references: Names to restore; empty restores all.
        registry: Credentials and TLS.
        progress: Receives progress events.

    Raises:
        UsageError: the target is malformed, or two references would get one name there.
        NotFound: there is no such archive, or a volume or a reference is missing.
        IntegrityError: a volume, a manifest or a blob is damaged.
        FormatError: it is no archive of a layout, or has a name that cannot be restored.
        StoreError: the target lacks a blob of an incremental archive, refused a request, or could not be reached.

    Example:
        >>> unpack("models.tar", "registry.example.com/mirror")  # doctest: +SKIP
    """
    path = archive_path(source)
    place = parse_destination(target, options.strip)
    inventory = None if options.inventory is None else Path(options.inventory)
    if inventory is not None:
        Inventory.check_target(inventory, path)
    progress = progress or Progress()
    archive = ArchiveStore(path)
    _verify(archive, progress)
    held = Inventory() if inventory is None or not inventory.exists() else Inventory.read(inventory)
    roots = _roots(archive, place, [without_scheme(each) for each in references])
    with ExitStack() as stack:
        targets = _Targets(place, registry, stack)
        session = CopySession()
        expected = _check_rest(archive, roots, targets, session, Workers(options.concurrency, progress))
        many = len(roots) >= options.concurrency
        graph = GraphOptions(full=options.full, concurrency=1 if many else options.concurrency)
        # By digest, the archive is one repository.
        whole = RepositoryView(archive, "", lambda blob: expected.get(blob.digest))
        stores = [targets.store(root.repository) for root in roots]
        progress.plan(_PHASE, len(roots), 0)

        def restore(item: tuple[_Root, Store]) -> CopyResult:
            root, store = item
            task = Task(_PHASE, root.name.text, 0)
            with reported(progress, task):
                copier = GraphCopier(whole, store, graph, session, Within(progress, task))
                return copier.copy(root.digest, root.name.tag)

        workers = Workers(options.concurrency if many else 1, progress, stores)
        copied = workers.map(restore, list(zip(roots, stores, strict=True)))
        warnings = [*(text for each in copied for text in each.warnings), *targets.warnings()]
    if inventory is not None:
        held.joined({each.name.text: each.contents.held for each in roots}).write(inventory)
    moves = [Moves.sum([each]) for each in copied]
    return UnpackReport(
        source=str(path),
        target=place.text,
        references=[
            UnpackedReference(
                name=root.name.text,
                target=root.reference,
                reference=f"{place.text if place.layout else root.repository}@{root.digest}",
                digest=root.digest,
                moves=each,
            )
            for root, each in zip(roots, moves, strict=True)
        ],
        totals=Moves.sum(moves),
        expected_count=len(expected),
        inventory=None if inventory is None else str(inventory),
        warnings=list(dict.fromkeys(warnings)),
    )


def _verify(archive: ArchiveStore, progress: Progress) -> None:
    volumes = archive.volumes
    if volumes and volumes.split:
        task = Task("verifying", volumes.path.name, volumes.size)
        progress.plan("verifying", 1, volumes.size)
        with reported(progress, task):
            volumes.verify(partial(progress.advance, task))


def _roots(archive: ArchiveStore, place: Destination, wanted: Sequence[str]) -> list[_Root]:
    """Return the names to restore, digest tags first: signatures arrive before the manifests that they sign."""
    found: dict[str, _Root] = {}
    for entry in archive.entries:
        text = (entry.get("annotations") or {}).get(ANNOTATION_REF_NAME)
        if text is None or (wanted and text not in wanted):
            continue
        name = parse_name(text) if isinstance(text, str) else None
        if name is None:
            raise FormatError(
                f"{archive.name} holds the name {show(str(text))}, which is no reference",
                hint="name the references that you want to restore",
            )
        contents = contents_of(archive, entry["digest"])
        root = _Root(name, contents.root.digest, place.repository(name), contents, _places(archive, entry, place))
        other = found.setdefault(root.reference, root)
        if other.digest != root.digest:
            raise UsageError(
                f"{show(other.name.text)} and {show(text)} would both become {root.reference}",
                hint="restore them one by one, by naming them, to different targets",
            )
    if missing := [each for each in wanted if all(each != root.name.text for root in found.values())]:
        raise NotFound(
            f"{archive.name} does not hold {show(missing[0])}", hint="its names are: " + ", ".join(archive.tags()[:10])
        )
    if archive.entries and not found:
        raise FormatError(
            f"{archive.name} has no names in it", hint="copy what you need by its digest: oci-archive:FILE@sha256:…"
        )
    return sorted(found.values(), key=lambda each: (not (each.name.tag or "").startswith("sha256-"), each.reference))


def _places(archive: ArchiveStore, entry: Entry, place: Destination) -> tuple[str, ...]:
    text = (entry.get("annotations") or {}).get(ANNOTATION_BLOBS_AT, "")
    found = []
    for each in text.split(",")[:_MOST_PLACES] if isinstance(text, str) and text else ():
        name = parse_name(each)
        if name is None or not name.repository:
            raise FormatError(f"{archive.name}: the annotation {ANNOTATION_BLOBS_AT} names {show(each)}, no repository")
        with suppress(UsageError):  # a place that --strip leaves out
            found.append(place.repository(name))
    return tuple(found)


class _Targets:
    """The repositories of the target, opened on first use."""

    def __init__(self, place: Destination, registry: RegistryOptions | None, stack: ExitStack) -> None:
        self._stack = stack
        self._stores: dict[str, Store] = {}
        self._registry = registry
        self._layout: LayoutStore | None = None
        if place.layout is not None:
            self._layout = LayoutStore(place.layout, create=True)
            stack.enter_context(self._layout)
        else:
            self._hosts = stack.enter_context(Hosts())

    def store(self, repository: str) -> Store:
        """Return the store of a repository."""
        found = self._stores.get(repository)
        if found is None:
            found = self._stores[repository] = self._open(repository)
        return found

    def _open(self, repository: str) -> Store:
        if self._layout is not None:
            return RepositoryView(self._layout, repository)
        reference = parse_reference(repository)
        assert isinstance(reference, RegistryReference)
        return self._stack.enter_context(open_store(reference, self._registry, hosts=self._hosts))

    def warnings(self) -> Iterable[str]:
        """Warnings of the registry."""
        return [text for store in self._stores.values() for text in store.warnings]


def _check_rest(
    archive: ArchiveStore, roots: Sequence[_Root], targets: _Targets, session: CopySession, workers: Workers
) -> dict[str, Store]:
    """Ask the target for the blobs that the archive lacks; return a repository for each digest.

    Raises:
        StoreError: the target lacks a blob.
    """
    lacking = {
        (root.repository, blob.digest): (root, blob)
        for root in roots
        for blob in root.contents.blobs
        if not archive.has_blob(blob)
    }
    for root, _ in lacking.values():
        for repository in (root.repository, *root.places):
            targets.store(repository)

    def find(item: tuple[_Root, Descriptor]) -> Store | None:
        root, blob = item
        for repository in dict.fromkeys((root.repository, *root.places)):
            store = targets.store(repository)
            if store.has_blob(blob):
                session.presence(store, blob.digest).homes[store.name] = store
                return store
        return None

    items = list(lacking.values())
    homes = workers.map(find, items)
    missing = [item for item, home in zip(items, homes, strict=True) if home is None]
    if missing:
        root, blob = missing[0]
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise StoreError(
            f"{root.repository or 'the target'} lacks the blob {blob.digest} of {root.name.text}{more}, "
            f"and {archive.name} was packed for a target that has it",
            hint="pack again without --since, or with an inventory that was written on this side",
        )
    return {blob.digest: home for (_, blob), home in zip(items, homes, strict=True) if home is not None}
