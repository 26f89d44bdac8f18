# SPDX-License-Identifier: Apache-2.0
"""From a job to single tags: what is asked of the sources before any work is handed out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import OcibridgeError
from ..oci import Reference
from ..operations.companions import companion_tags, main_tag
from ..stores.base import Store
from .jobs.filters import Pair, pair, select_repositories, select_tags
from .jobs.places import RegistryPlace
from .reports import MirrorItem
from .shards import Shard
from .storepool import StorePool
from .work import Unit, failure

if TYPE_CHECKING:
    from .jobs.entry import SyncEntry
    from .jobs.job import Job

LISTINGS = 8
"""Repositories whose tags are listed at the same time."""


@dataclass(frozen=True, slots=True)
class TagGroup:
    """The tags that one entry copies from one repository to another.

    Attributes:
        entry: Number of the entry, from 0.
        target: The repository that it comes to.
        tags: The tags that it shall have, in all shards; empty in a job that prunes nothing.
        mine: Whether this shard looks after the repository as a whole.
    """

    entry: int
    target: Reference
    tags: frozenset[str]
    mine: bool = True


@dataclass(frozen=True, slots=True)
class Expansion:
    """The work of a run.

    Attributes:
        units: One for each tag, in the order of the job.
        groups: The repositories that they come to.
        failures: Sources that could not be listed.
        warnings: Entries that choose nothing at all: rather a slip in a filter than what is meant.
    """

    units: tuple[Unit, ...] = ()
    groups: tuple[TagGroup, ...] = ()
    failures: tuple[MirrorItem, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _SourceTags:
    """The tags of one repository that an entry brings to another."""

    number: int
    pair: Pair
    tags: tuple[str, ...]


def expand(
    job: Job,
    pool: StorePool,
    shard: Shard | None = None,
    entries: Collection[int] | None = None,
    listed: Callable[[Store, Sequence[str]], None] = lambda *_: None,
) -> Expansion:
    """The tags of a job; what cannot be listed is a failure like any other.

    Args:
        job: The job.
        pool: Stores of its sources.
        shard: The part of it that is wanted; None is all of it.
        entries: Numbers of the entries that are wanted; None is all of them.
        listed: Called with all tags of each listed source, so that they are not listed again.
    """
    units: list[Unit] = []
    groups: list[TagGroup] = []
    failures: list[MirrorItem] = []
    warnings: list[str] = []
    # Who deletes has to know what the other entries bring.
    every = entries is None or any(job.entries[number].prune.enabled for number in entries)
    prunes = any(entry.prune.enabled for entry in job.entries)
    for number, entry in enumerate(job.entries):
        wanted = entries is None or number in entries
        if not (wanted or every):
            continue
        listings = _listings(number, entry, pool, listed)
        if wanted and not any(isinstance(each, MirrorItem) or each.tags for each in listings):
            warnings.append(f"sync[{number}]: {entry.source} has nothing that its filters choose")
        for found in listings:
            if isinstance(found, MirrorItem):
                failures.append(found)
                continue
            target = found.pair.target
            mine = [tag for tag in found.tags if wanted and _is_mine(entry, target, tag, shard)]
            units += [_unit(found, tag) for tag in mine]
            # Tags of other shards may be under way: only who has a repository whole may delete in it.
            whole = wanted and (shard is None or (entry.sync.type == "registry" and shard.has(target.name)))
            tags = frozenset(_target_tag(found, tag) for tag in found.tags) if prunes else frozenset()
            groups.append(TagGroup(number, target, tags, whole))
    return Expansion(_once(units), tuple(groups), tuple(failures), tuple(warnings))


def _listings(
    number: int, entry: SyncEntry, pool: StorePool, listed: Callable[[Store, Sequence[str]], None]
) -> list[_SourceTags | MirrorItem]:
    try:
        pairs = _pairs(entry, pool)
    except OcibridgeError as exc:
        return [_failed(number, str(entry.source), str(entry.target), exc)]

    def look(each: Pair) -> _SourceTags | MirrorItem:
        try:
            return _SourceTags(number, each, tuple(_tags(entry, each, pool, listed)))
        except OcibridgeError as exc:
            return _failed(number, str(each.source), str(each.target), exc)

    if len(pairs) == 1:
        return [look(pairs[0])]
    with ThreadPoolExecutor(LISTINGS, thread_name_prefix="ocibridge-listing") as threads:
        return list(threads.map(look, pairs))


def _pairs(entry: SyncEntry, pool: StorePool) -> list[Pair]:
    if not isinstance(entry.source, RegistryPlace):
        return [pair(entry)]
    place = entry.source
    inside = f"{place.prefix}/" if place.prefix else ""
    names = pool.repositories(place.host)
    below = [name[len(inside) :] for name in names if name.startswith(inside)]
    return [pair(entry, name) for name in select_repositories(entry, below)]


def _tags(entry: SyncEntry, each: Pair, pool: StorePool, listed: Callable[[Store, Sequence[str]], None]) -> list[str]:
    """Return the tags to copy, or the digest of an entry that names one."""
    source = each.source
    if entry.sync.type == "image":
        if source.digest:
            return [source.digest]
        if entry.sync.dialect:
            return [source.version]
        store = pool.store(source)
        companions = companion_tags(source.version) if main_tag(source.version) == source.version else []
        return [source.version, *(tag for tag in companions if store.head(tag) is not None)]
    store = pool.store(source)
    there = store.tags()
    listed(store, there)
    chosen = dict.fromkeys(select_tags(entry, there))
    every = set(there)
    if entry.sync.dialect:
        # The companions of a model belong to the manifest that it has here, which the target does not get.
        return [tag for tag in chosen if main_tag(tag) == tag or main_tag(tag) not in every]
    # A model and its companions are one thing, whatever the filters say of the names.
    companions = [each for tag in chosen for each in companion_tags(tag) if each in every]
    return list(chosen | dict.fromkeys(companions))


def _unit(found: _SourceTags, tag: str) -> Unit:
    source = found.pair.source.pinned(tag) if ":" in tag else found.pair.source.at(tag, found.pair.source.digest)
    target = found.pair.target.at(_target_tag(found, tag))
    return Unit(found.number, str(source), str(target))


def _target_tag(found: _SourceTags, tag: str) -> str:
    """The tag at the target, which an entry of type `image` may name otherwise."""
    given = found.pair.target.tag
    if given is None:
        return tag
    own = found.pair.source.version
    return given + tag.removeprefix(own) if tag in companion_tags(own) else given


def _is_mine(entry: SyncEntry, target: Reference, tag: str, shard: Shard | None) -> bool:
    """Repositories stay together where there are many of them, as their tags share blobs; and a model's companions."""
    if shard is None:
        return True
    if entry.sync.type == "registry":
        return shard.has(target.name)
    return shard.has(f"{target.name}:{main_tag(tag)}")


def _once(units: Sequence[Unit]) -> tuple[Unit, ...]:
    """The first of each target: what two entries bring to one tag would change with every run."""
    return tuple({unit.target: unit for unit in reversed(units)}.values())[::-1]


def _failed(number: int, source: str, target: str, exc: OcibridgeError) -> MirrorItem:
    return MirrorItem(entry=number, outcome="failed", source=source, target=target, error=failure(exc), listing=True)
