# SPDX-License-Identifier: Apache-2.0
"""Deleting what the source has no more, with every reason not to.

A tag is deleted together with its manifest, so that its blobs can be collected: it stays wherever anything that stays
would miss the manifest.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import NotFound, OcibridgeError, StoreError
from ..oci import Reference, parse_reference
from ..operations.companions import main_tag
from ..report import now
from ..stores.base import Store
from ..transfer.graph import Node, fetch_node
from .jobs.filters import is_digest_tag, prunable_tags
from .reports import MirrorItem, PlannedItem
from .storepool import StorePool
from .work import backup_tag, failure

if TYPE_CHECKING:
    from .jobs.entry import SyncEntry

_UNSUPPORTED = (400, 405, 501)
"""How registries say that they cannot delete manifests."""


@dataclass(frozen=True, slots=True)
class PruneTarget:
    """A repository that a job keeps in sync, and prunes.

    Attributes:
        number: Of the entry, from 0.
        entry: The entry that asks for pruning.
        target: The repository.
        expected: Tags that all entries of the job bring to it.
        backups: Templates of the tags under which they keep what they replace or delete.
    """

    number: int
    entry: SyncEntry
    target: Reference
    expected: frozenset[str]
    backups: frozenset[str] = frozenset()


DRY_RUN = "dry run: it is deleted with 'dryRun: false'"


def plan_prune(place: PruneTarget, pool: StorePool) -> list[PlannedItem]:
    """Plan which tags of a target are deleted, and which are kept although the job does not copy them.

    Raises:
        OcibridgeError: the target cannot be read.
    """
    try:
        store = pool.store(place.target)
        there = store.tags()
    except NotFound:
        return []
    extra = [tag for tag in there if _is_extra(tag, place)]
    wanted = [tag for tag in prunable_tags(place.entry, extra) if tag in extra]
    if not wanted:
        return []
    items = [_planned(place, tag, store) for tag in wanted]
    every = len([tag for tag in there if not is_digest_tag(tag)])
    share = len(wanted) / every
    most = place.entry.prune.max_share
    if not place.expected:
        return [_kept(item, "the source has nothing left: that is rather a mistake than the truth") for item in items]
    if share > most:
        would = f"{len(wanted)} of {every} tags would be deleted ({share:.0%})"
        reason = f"guard: {would}, and 'maxShare' allows {most:.0%}"
        return [_kept(item, reason) for item in items]
    stay = _staying([tag for tag in there if tag not in wanted], store)
    checked = [_checked(item, stay, store) for item in items]
    if place.entry.prune.dry_run:
        return [_kept(item, DRY_RUN) if item.action == "prune" else item for item in checked]
    return checked


def still_to_prune(items: Sequence[PlannedItem], pool: StorePool) -> list[PlannedItem]:
    """Return the items of a plan, without manifests that newer tags need, even those of the same plan."""
    doomed: dict[str, set[str]] = defaultdict(set)
    for item in items:
        if item.action == "prune":
            target = parse_reference(item.target)
            doomed[target.name].add(target.version)
    stay: dict[str, Mapping[str, str]] = {}
    return [_still(item, doomed, stay, pool) if item.action == "prune" else item for item in items]


def _still(
    item: PlannedItem, doomed: Mapping[str, set[str]], stay: dict[str, Mapping[str, str]], pool: StorePool
) -> PlannedItem:
    target = parse_reference(item.target)
    try:
        store = pool.store(target)
        if target.name not in stay:
            stay[target.name] = _staying([tag for tag in store.tags() if tag not in doomed[target.name]], store)
        return _checked(item, stay[target.name], store)
    except OcibridgeError as exc:
        return _kept(item, f"its tags cannot be read: {exc.message}")


def prune(items: Sequence[PlannedItem], job_entries: Sequence[SyncEntry], pool: StorePool) -> list[MirrorItem]:
    """Delete what a plan says; what has changed since then is kept."""
    return [_pruned(item, job_entries[item.entry], pool) for item in items]


def _is_extra(tag: str, place: PruneTarget) -> bool:
    if tag in place.expected or main_tag(tag) in place.expected or is_digest_tag(tag):
        return False
    return not any(_made_by(template, tag) for template in place.backups)


def _made_by(template: str, tag: str) -> bool:
    """Return whether a tag is one that the template of a backup makes."""
    before, _, after = template.partition("{tag}")
    return re.fullmatch(f"{re.escape(before)}.+{re.escape(after)}", tag) is not None if "{tag}" in template else False


def _planned(place: PruneTarget, tag: str, store: Store) -> PlannedItem:
    found = store.head(tag)
    return PlannedItem(
        entry=place.number,
        action="prune",
        source=None,
        target=f"{place.target.name}:{tag}",
        digest=found.digest if found else None,
        reason="the job does not bring it",
    )


def _kept(item: PlannedItem, reason: str) -> PlannedItem:
    return item.model_copy(update={"action": "keep", "reason": reason})


def _staying(tags: Sequence[str], store: Store) -> Mapping[str, str]:
    """Digests of all that the tags that stay need, and why."""
    found: dict[str, str] = {}
    for tag in tags:
        # The list of a manifest's referrers keeps none of them.
        node = None if is_digest_tag(tag) and "." not in tag else _node(store, tag)
        if node is None:
            continue
        found[node.descriptor.digest] = f"the tag {tag} has the same manifest"
        waiting = [*node.children]
        while waiting:
            child = waiting.pop()
            if child.digest not in found:
                found[child.digest] = f"the index {tag} names its manifest"
                below = _node(store, child.digest)
                waiting += below.children if below else ()
    return found


def _node(store: Store, version: str) -> Node | None:
    try:
        return fetch_node(store, version)
    except NotFound:
        return None


def _checked(item: PlannedItem, stay: Mapping[str, str], store: Store) -> PlannedItem:
    node = _node(store, item.digest) if item.digest else None
    if node is None:
        return _kept(item, "it is gone already")
    if reason := stay.get(node.descriptor.digest):
        return _kept(item, reason)
    if node.subject and node.subject.digest in stay:
        return _kept(item, "it refers to a manifest that stays")
    return item


def _pruned(item: PlannedItem, entry: SyncEntry, pool: StorePool) -> MirrorItem:
    started, clock = now(), time.monotonic()
    done = MirrorItem(
        entry=item.entry, outcome="kept", source=None, target=item.target, digest=item.digest, reason=item.reason
    )
    if item.action == "prune":
        try:
            reason = _delete(item, entry, pool)
            done = done.model_copy(update={"outcome": "kept", "reason": reason} if reason else {"outcome": "pruned"})
        except OcibridgeError as exc:
            done = done.model_copy(update={"outcome": "failed", "error": failure(exc)})
    return done.model_copy(update={"started": started, "seconds": time.monotonic() - clock})


def _delete(item: PlannedItem, entry: SyncEntry, pool: StorePool) -> str | None:
    """Delete a tag; why it is kept, if it is."""
    target = parse_reference(item.target)
    store = pool.store(target)
    found = store.head(target.version)
    if found is None:
        return None  # with another tag of the same manifest
    if found.digest != item.digest:
        return "it has changed since the plan was made"
    if not entry.prune.backup:
        _delete_manifest(store, found.digest, target.version)
        return None
    backup = backup_tag(entry.prune.backup, target)
    descriptor, data = store.fetch_manifest(found.digest)
    store.push_manifest(data, descriptor.media_type, backup)
    store.delete(target.version)
    if store.head(backup) is None:
        # This registry deletes the manifest with the tag, and with all its other tags.
        store.push_manifest(data, descriptor.media_type, backup)
    return None


def _delete_manifest(store: Store, digest: str, tag: str) -> None:
    """Delete a manifest with its tags, so that its blobs can be collected; only the tag where no more is allowed."""
    try:
        store.delete(digest)
    except StoreError as exc:
        if exc.status not in _UNSUPPORTED:
            raise
        store.delete(tag)
