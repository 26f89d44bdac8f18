# SPDX-License-Identifier: Apache-2.0
"""Checks across entries: an entry that copies into its own source, or two with one target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...oci import Reference, RegistryReference
from .entry import SyncEntry
from .filters import passes, select_repositories, select_tags
from .places import RegistryPlace, canonical_host, canonical_name

_PROBES = ("x", "x/y", "library/x")
"""Names that stand for those of any repository below a prefix."""


def loop(entry: SyncEntry) -> str | None:
    """Why the target of an entry lies in its source, if it does: each run would copy what the last one has written."""
    source, target = entry.source, entry.target
    if isinstance(source, RegistryPlace) and isinstance(target, RegistryPlace):
        if not source.is_same_host(target):
            return None
        if not target.prefix:
            return "the target is the source itself; name another registry, or a prefix"
        if any(passes(entry.sync.repos, f"{target.prefix}/{name}") for name in _PROBES):
            return (
                "the target lies in the source, and would be copied into itself; "
                f"add repos: {{deny: ['{target.prefix}/.*']}}"
            )
        return None
    assert not isinstance(source, RegistryPlace)
    assert not isinstance(target, RegistryPlace)
    if canonical_name(source) != canonical_name(target):
        return None
    if entry.sync.type == "repository" or source.tag == target.tag:
        return "the target is the source itself; name another one"
    return None


def conflicts(entries: Sequence[SyncEntry]) -> Iterator[tuple[int, str]]:
    """Entries that write where an earlier one writes, from another source: the later of the two and what is wrong."""
    for later, entry in enumerate(entries):
        for other in entries[:later]:
            if (place := _common(entry, other)) and not _same_source(entry, other):
                yield (
                    entry.number,
                    f"sync[{other.number}] writes {place} from another source too; "
                    "the one that comes first wins, so give them different targets or tags",
                )
                break


def _same_source(entry: SyncEntry, other: SyncEntry) -> bool:
    one, two = entry.source, other.source
    if isinstance(one, RegistryPlace) or isinstance(two, RegistryPlace):
        hosts = [each.host for each in (one, two) if isinstance(each, (RegistryPlace, RegistryReference))]
        return len(hosts) == 2 and canonical_host(hosts[0]) == canonical_host(hosts[1])
    return canonical_name(one) == canonical_name(two) and (one.tag, one.digest) == (two.tag, two.digest)


def _common(entry: SyncEntry, other: SyncEntry) -> str | None:
    """Return the targets that both entries may write, as far as the job file shows them."""
    one, two = entry.target, other.target
    if isinstance(one, RegistryPlace) and isinstance(two, RegistryPlace):
        return str(one) if one.is_same_host(two) and one.prefix == two.prefix else None
    if isinstance(one, RegistryPlace):
        return None if isinstance(two, RegistryPlace) else _below(entry, one, two)
    if isinstance(two, RegistryPlace):
        return _below(other, two, one)
    if canonical_name(one) != canonical_name(two):
        return None
    if one.tag and two.tag:
        return str(one) if one.tag == two.tag else None
    if one.tag or two.tag:
        tag, wide = (one.tag, other) if one.tag else (two.tag, entry)
        return f"{one.name}:{tag}" if tag and select_tags(wide, [tag]) else None
    return one.name


def _below(wide: SyncEntry, place: RegistryPlace, narrow: Reference) -> str | None:
    """The repository `narrow`, if an entry for a whole registry writes it too."""
    if not isinstance(narrow, RegistryReference) or canonical_host(place.host) != canonical_host(narrow.host):
        return None
    start = f"{place.prefix}/" if place.prefix else ""
    name = narrow.repository.removeprefix(start)
    if not narrow.repository.startswith(start) or not select_repositories(wide, [name]):
        return None
    return narrow.name
