# SPDX-License-Identifier: Apache-2.0
"""`copy`: a model, with all that belongs to it, from store to store; nothing is read as a model, no byte is changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from typing import TYPE_CHECKING

from .. import settings
from ..errors import InvalidReference, NotFound, OcibridgeError, UsageError
from ..oci import LayoutReference, Reference, parse_reference
from ..report import Moves
from ..stores.base import Store
from ..stores.memory import MemoryStore
from ..stores.missing import naming_tags
from ..stores.opening import open_store
from ..stores.registry.hosts import Hosts
from ..transfer import Progress
from ..transfer.copygraph import CopyResult, GraphCopier, GraphOptions
from ..transfer.graph import Node, fetch_node
from ..transfer.session import CopySession
from .companions import companion_reference, companion_suffixes
from .options import CopyOptions
from .reports import CopiedCompanion, CopyReport
from .sources import other_side, stored_reference

if TYPE_CHECKING:
    from ..stores.registry import RegistryOptions


def copy(
    source: str | Reference,
    target: str | Reference,
    options: CopyOptions = CopyOptions(),
    *,
    before: Callable[[Node], None] | None = None,
    registry: RegistryOptions | None = None,
    source_registry: RegistryOptions | None = None,
    progress: Progress | None = None,
) -> CopyReport:
    """Copy an artifact, image or index, byte for byte, with what refers to it.

    Blobs stream from store to store, and within one registry they are mounted: no byte of them moves. The tag comes
    last. A tag that is moved at the source meanwhile does no harm: it is resolved once.

    Args:
        source: `HOST[:PORT]/REPOSITORY[:TAG|@DIGEST]`, `oci:DIR[:TAG]` or `oci-archive:FILE[:TAG]`.
        target: The same. Without tag or digest, it gets the tag of the source.
        options: What of it is copied. Not every registry takes an index without some of its platforms.
        before: Called with the root before anything moves; what it raises ends the copy.
        registry: How to reach the target; the source, too, where it is on the same host, or alone in a registry.
        source_registry: How to reach the source.
        progress: Receives progress events.

    Returns:
        What moved, and what did not have to.

    Raises:
        UsageError: the arguments do not fit together.
        NotFound: the source does not have it.
        FormatError: it is no manifest that can be copied.
        IntegrityError: the source has other bytes than a digest promises.
        StoreError: one of the two refused something, or could not be reached.

    Example:
        >>> copy("localhost:5000/models/digits:v1", "localhost:5001/mirror/digits").tag  # doctest: +SKIP
        'v1'
    """
    origin = stored_reference(source)
    goal = _goal(origin, parse_reference(target) if isinstance(target, str) else target)
    graph = GraphOptions(
        platforms=tuple(options.platforms or ()),
        referrers=options.referrers,
        digest_tags=options.digest_tags,
        full=options.full,
        concurrency=options.concurrency,
        before=before,
    )
    if source_registry is None:
        source_registry = other_side(origin, goal, registry)
    with ExitStack() as stack:
        hosts, notes = stack.enter_context(Hosts()), settings.cache_dir()
        home = stack.enter_context(open_store(origin, source_registry, hosts=hosts))
        if isinstance(goal, LayoutReference):
            with naming_tags(home, origin.version):
                home.resolve(origin.version)  # what is not there makes no new layout
        if options.dry_run:
            place = stack.enter_context(_existing(goal, registry, hosts))
        else:
            place = stack.enter_context(open_store(goal, registry, hosts=hosts, create=True, notes=notes))
        copier = GraphCopier(home, place, graph, CopySession(), progress)
        with nullcontext() if options.dry_run else place.batch():
            root = (copier.plan if options.dry_run else copier.copy)(origin.version, goal.tag)
            found = copy_companions(copier, origin, goal, root, options.dry_run) if options.companions else []
        warnings = dict.fromkeys([*root.warnings, *(text for _, each in found for text in each.warnings)])
        report = _report(origin, goal, root, found, [*warnings, *dict.fromkeys([*home.warnings, *place.warnings])])
        return report.model_copy(update={"dry_run": options.dry_run})


def _existing(goal: Reference, registry: RegistryOptions | None, hosts: Hosts) -> Store:
    """The target of a copy that is only planned: what is not there is as good as an empty store."""
    try:
        return open_store(goal, registry, hosts=hosts)
    except NotFound:
        return MemoryStore(goal.name)


def _goal(origin: Reference, target: Reference) -> Reference:
    """The target reference, with its tag."""
    if target.digest is not None:
        raise UsageError("the target of a copy has a tag, not a digest", hint="leave out the part from '@' on")
    if target.tag is not None or (origin.digest is not None and origin.tag is None):
        return target
    return target.at(origin.tag or origin.version)


def copy_companions(
    copier: GraphCopier, origin: Reference, goal: Reference, root: CopyResult, dry_run: bool = False
) -> list[tuple[str, CopyResult]]:
    """Copy the companions of the model, or plan that."""
    tag = origin.tag or (None if origin.digest else origin.version)
    found: list[tuple[str, CopyResult]] = []
    if tag is None or goal.tag is None:
        return found
    for kind, suffix in companion_suffixes().items():
        try:
            new = companion_reference(goal, suffix)
        except InvalidReference:
            continue  # so long a tag has no companion
        there = copier.source.head(tag + suffix)
        if there is not None and belongs(copier.source, there.digest, root.descriptor.digest):
            found.append((kind, (copier.plan if dry_run else copier.copy)(there.digest, new.tag)))
    return found


def belongs(source: Store, companion: str, artifact: str) -> bool:
    """Return whether a companion belongs to an artifact: it refers to it, or all its blobs are the artifact's."""
    try:
        node = fetch_node(source, companion)
        if node.subject is not None:
            return node.subject.digest == artifact
        blobs = {each.digest for each in fetch_node(source, artifact).blobs}
    except OcibridgeError:
        return False
    return bool(node.blobs) and blobs.issuperset(each.digest for each in node.blobs)


def _report(
    origin: Reference,
    goal: Reference,
    root: CopyResult,
    companions: Sequence[tuple[str, CopyResult]],
    warnings: list[str],
) -> CopyReport:
    parts = [root, *(each for _, each in companions)]
    digest = root.descriptor.digest
    return CopyReport(
        source=str(origin.pinned(digest)),
        target=str(goal if goal.tag else goal.pinned(digest)),
        reference=str(goal.pinned(digest)),
        digest=digest,
        media_type=root.descriptor.media_type,
        tag=goal.tag,
        moves=Moves.sum(parts),
        referrers=sum(each.referrers for each in parts),
        tags=list(dict.fromkeys(tag for each in parts for tag in each.tags)),
        companions=[
            CopiedCompanion(kind=kind, tag=each.tags[-1], digest=each.descriptor.digest) for kind, each in companions
        ],
        warnings=warnings,
    )
