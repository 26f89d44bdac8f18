# SPDX-License-Identifier: Apache-2.0
"""One tag: what has to be done with it, and doing it. The same code plans and runs."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import IntegrityError, NotFound, OcibridgeError, StoreError
from ..oci import Descriptor, Reference, parse_reference
from ..report import Moves, now
from ..stores.base import Store
from ..transfer import Progress, Task
from ..transfer.copygraph import GraphCopier, GraphOptions
from ..transfer.graph import Node, fetch_node
from ..transfer.progress import Within
from ..transfer.session import CopySession
from ..transfer.throttle import Throttle
from .companions import publish_companions, translate
from .facts import traits_of
from .hints import in_job
from .jobs.filters import wants_model
from .reports import IN_SYNC, Failure, MirrorItem, PlannedItem
from .storepool import StorePool

if TYPE_CHECKING:
    from .jobs.entry import SyncEntry
    from .jobs.job import Job

ROUNDS = 3
"""How often a tag is copied again because it was moved at the source meanwhile."""
LONG = 1.0
"""Seconds from which on a copy is one during which a tag may have been moved: then the source is asked again."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One tag of a job, the smallest work that is handed out; it can be sent to another process.

    Attributes:
        entry: Number of the `sync` entry, from 0.
        source: Reference with tag or digest.
        target: Reference with tag.
        digest: Digest to copy; None resolves the tag when it is copied.
        replaces: What the target had when that was planned; None is nothing, or not planned.
        known: Digests at source and target that the tag had when all below it was known to be there.
        full: Whether the target is asked for every blob.
    """

    entry: int
    source: str
    target: str
    digest: str | None = None
    replaces: str | None = None
    known: tuple[str, str] | None = None
    full: bool = False


@dataclass(frozen=True, slots=True)
class _Case:
    """A unit, and what the two sides say."""

    unit: Unit
    entry: SyncEntry
    source: Reference
    target: Reference
    digest: str
    there: Descriptor | None
    root: Node | None = None

    @property
    def wanted(self) -> Node | str:
        """The version to copy: the manifest, if it was read already."""
        return self.root or self.digest

    @property
    def equal(self) -> bool:
        """True if the target has what the source has, as far as a digest tells."""
        if self.there is None:
            return False
        if self.entry.sync.dialect:
            return self.unit.known == (self.digest, self.there.digest)
        return self.there.digest == self.digest

    @property
    def verified(self) -> bool:
        """True if all below it was there, too, when the target had this digest for the first time."""
        return (
            not (self.unit.full or self.entry.sync.force_recursive)
            and self.there is not None
            and self.unit.known == (self.digest, self.there.digest)
        )


class Worker:
    """Works on the units of one job in one process; its methods may be called from several threads.

    Args:
        job: The job.
        on_blob: Called for each blob that a target has received, with digest, size in bytes, repository, action.
        progress: Receives progress events.
        journalled: Blobs that an interrupted run has brought; see `CopySession`.
    """

    def __init__(
        self,
        job: Job,
        on_blob: Callable[[str, int, str, str], None] | None = None,
        progress: Progress | None = None,
        journalled: Collection[tuple[str, str]] = frozenset(),
    ) -> None:
        self.job = job
        self.progress = progress or Progress()
        self.pool = StorePool(job)
        self._throttle = Throttle(job.bandwidth) if job.bandwidth else None
        throttle = self._throttle.take if self._throttle else None
        self._session = CopySession(
            on_blob, throttle, journalled, lambda name: self.pool.store(parse_reference(f"{name}:x"))
        )

    def listed(self, store: Store, tags: Sequence[str]) -> None:
        """Take note of all tags of a source."""
        self._session.remember_tags(store, tags)

    # Planning.

    def plan(self, unit: Unit) -> PlannedItem:
        """Plan what `run` does with a unit; nothing is changed.

        Raises:
            OcibridgeError: it cannot be found out.
        """
        case = self._look(unit)
        action, reason, moves = "copy", _why(case), Moves()
        unwanted = None if case.equal else self._unwanted(case)
        if unwanted:
            action, reason = "skip", unwanted
        elif case.equal and case.verified:
            action, reason = "skip", IN_SYNC
        else:
            found = self._copier(case, Progress()).plan(case.wanted)
            moves = Moves.sum([found])
            if case.equal and not (moves.copied or moves.mounted):
                action, reason = "skip", IN_SYNC
            elif case.equal:
                reason = "the target has the manifest, and lacks blobs of it"
        return PlannedItem(
            entry=unit.entry,
            action="skip" if action == "skip" else "copy",
            source=unit.source,
            target=unit.target,
            digest=case.digest,
            replaces=case.there.digest if case.there else None,
            reason=reason,
            moves=moves if action == "copy" else Moves(),
        )

    # Running.

    def run(self, unit: Unit) -> MirrorItem:
        """Bring a tag in sync; a failure is a result like any other."""
        started, clock = now(), time.monotonic()
        task = Task("mirroring", unit.target, 0)
        self.progress.start(task)
        inner = Within(self.progress, task)
        warnings: dict[str, None] = {}
        try:
            try:
                item = self._run(unit, warnings, inner)
            except IntegrityError:
                # A registry may give half of a link to whoever reads while another process writes the same manifest.
                item = self._run(unit, warnings, inner)
        except OcibridgeError as exc:
            item = MirrorItem(
                entry=unit.entry, outcome="failed", source=unit.source, target=unit.target, error=failure(exc)
            )
        self.progress.finish(task, item.outcome)
        update = {"warnings": list(warnings), "started": started, "seconds": time.monotonic() - clock}
        return item.model_copy(update=update)

    def _run(self, unit: Unit, warnings: dict[str, None], progress: Progress) -> MirrorItem:
        """Copy a tag, or check that it is in sync; add warnings to `warnings`."""
        case = self._look(unit)
        if case.equal and case.verified and not self._below(case):
            return _item(case, "skipped", IN_SYNC)
        if not case.equal and (unwanted := self._unwanted(case)):
            return _item(case, "skipped", unwanted)
        if unit.digest and (case.there.digest if case.there else None) not in (unit.replaces, unit.digest):
            raise StoreError(
                f"{unit.target} has changed since the plan was made",
                hint="make a new plan with 'ocibridge mirror plan'",
            )
        reason = _why(case)
        if case.entry.sync.dialect:
            return self._translate(case, reason, progress)
        self._back_up(case, self._replaced(case))
        total, rounds = Moves(), 0
        while True:
            started = time.monotonic()
            copied = self._copier(case, progress).copy(case.wanted, case.target.tag)
            total, rounds = Moves.sum([total, copied]), rounds + 1
            warnings.update(dict.fromkeys(copied.warnings))
            if unit.digest or case.source.digest or time.monotonic() - started < LONG or rounds == ROUNDS:
                break
            again = self._head(case.source)
            if again is None or again.digest == case.digest:
                break
            case = self._look(unit)
            reason = "the source moved meanwhile"
        also = publish_companions(case.entry, case.target, self.pool, self._session, progress)
        moved = total.copied + total.mounted + total.manifests
        if case.equal and not moved and not also:
            return _item(case, "skipped", IN_SYNC, total)
        if case.equal:
            reason = "blobs or referrers were missing at the target"
        return _item(case, "copied", reason, total, also)

    def _translate(self, case: _Case, reason: str, progress: Progress) -> MirrorItem:
        if case.equal and case.verified:
            also = publish_companions(case.entry, case.target, self.pool, self._session, progress)
            return _item(case, "copied" if also else "skipped", IN_SYNC, also=also)
        old = self._replaced(case)
        done = translate(case.entry, case.source.pinned(case.digest), case.target, self.pool, self._session, progress)
        moves = Moves()
        for layer in done.layers:
            how = {"uploaded": "copied", "mounted": "mounted", "skipped": "present"}[layer.action]
            one = Moves(**{how: 1, f"{how}_bytes": layer.size})
            moves = Moves.sum([moves, one])
        same = case.there is not None and case.there.digest == done.digest
        if not same:
            # Only now is it known that the tag has another manifest than before.
            self._back_up(case, old)
        also = publish_companions(case.entry, case.target, self.pool, self._session, progress)
        if same and not (moves.copied or moves.mounted or also):
            item = _item(case, "skipped", IN_SYNC, moves)
        else:
            item = _item(case, "copied", reason, moves, also)
        replaced = None if same else item.replaced
        return item.model_copy(update={"digest": done.digest, "source_digest": case.digest, "replaced": replaced})

    # What the two sides say.

    def _look(self, unit: Unit) -> _Case:
        entry = self.job.entries[unit.entry]
        source, target = parse_reference(unit.source), parse_reference(unit.target)
        new = self._session.known_as_new(target.name)
        there = None if new else self._head(target)
        digest, root = unit.digest or source.digest, None
        if digest is None and new:
            # All of it will be copied: reading it gives its digest, too.
            root = fetch_node(self.pool.store(source), source.version)
            digest = root.digest
        elif digest is None:
            found = self._head(source)
            if found is None:
                raise NotFound(f"{source} is not there", hint="check the tag, or whether it was deleted meanwhile")
            digest = found.digest
        return _Case(unit, entry, source, target, digest, there, root)

    def _head(self, reference: Reference) -> Descriptor | None:
        try:
            return self.pool.store(reference).head(reference.version)
        except NotFound:
            return None  # a layout that has not been made yet

    def _below(self, case: _Case) -> bool:
        """Return whether there may be something new below a root that is in sync."""
        entry = case.entry
        return bool(entry.sync.referrers or entry.sync.digest_tags) and not entry.sync.fast_check

    def _unwanted(self, case: _Case) -> str | None:
        """Why the filters for models leave it out, if they do."""
        if case.entry.sync.models is None:
            return None
        return wants_model(case.entry, traits_of(self.pool.store(case.source), case.source.pinned(case.digest)))

    def _replaced(self, case: _Case) -> tuple[Descriptor, bytes] | None:
        """Return the tag that keeps a replaced manifest, if the job names one."""
        if case.entry.sync.backup is None or case.there is None or case.equal:
            return None
        return self.pool.store(case.target).fetch_manifest(case.there.digest)

    def _back_up(self, case: _Case, old: tuple[Descriptor, bytes] | None) -> None:
        """Give what is replaced the tag that the job has for that."""
        if old is not None and case.entry.sync.backup is not None:
            tag = backup_tag(case.entry.sync.backup, case.target)
            self.pool.store(case.target).push_manifest(old[1], old[0].media_type, tag)

    def _copier(self, case: _Case, progress: Progress) -> GraphCopier:
        sync = case.entry.sync
        options = GraphOptions(
            platforms=sync.platforms or (),
            referrers=sync.referrers,
            referrer_types=case.entry.referrer_types,
            digest_tags=sync.digest_tags,
            full=not case.verified,
        )
        source: Store = self.pool.store(case.source)
        target: Store = self.pool.store(case.target, create=True)
        return GraphCopier(source, target, options, self._session, progress)

    def interrupt(self) -> None:
        """Wake all threads that wait for a store, or for their share of the bandwidth."""
        if self._throttle:
            self._throttle.stop()
        self.pool.interrupt()

    def close(self) -> None:
        """Give back connections."""
        self.pool.close()


def failure(exc: OcibridgeError) -> Failure:
    """An error as a report has it."""
    return Failure(type=type(exc).__name__, message=exc.message, hint=in_job(exc.hint))


def way_of(entry: SyncEntry) -> str:
    """Return a hash of the options that determine the content and form of a copied tag, for the journal."""
    sync = entry.sync
    parts = (sync.platforms or (), sync.referrers, entry.referrer_types, sync.digest_tags, sync.also, sync.dialect)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def backup_tag(template: str, target: Reference) -> str:
    """The tag that a template such as `old-{tag}` makes.

    Raises:
        InvalidReference: it is no tag.
    """
    tag = template.replace("{tag}", target.version)
    return parse_reference(f"{target.pinned('').name}:{tag}").version


def _why(case: _Case) -> str:
    if case.there is None:
        return "new"
    return IN_SYNC if case.equal else "changed"


def _item(
    case: _Case,
    outcome: str,
    reason: str,
    moves: Moves | None = None,
    also: list[str] | None = None,
) -> MirrorItem:
    return MirrorItem(
        entry=case.unit.entry,
        outcome="copied" if outcome == "copied" else "skipped",
        source=case.unit.source,
        target=case.unit.target,
        digest=case.there.digest if case.equal and case.there else case.digest,
        source_digest=case.digest if case.entry.sync.dialect else None,
        replaced=case.there.digest if case.there and not case.equal else None,
        reason=reason,
        moves=moves or Moves(),
        also=also or [],
    )
