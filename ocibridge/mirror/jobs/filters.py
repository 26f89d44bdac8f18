# SPDX-License-Identifier: Apache-2.0
"""Filters of an entry: repositories, tags and models, and their targets."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ...errors import InvalidReference, human_size
from ...oci import Reference, parse_reference
from .entry import SyncEntry
from .jobfile import NameFilter, TagFilter
from .places import RegistryPlace

_DIGEST_TAG = re.compile(r"sha256-[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Pair:
    """A source and its target.

    Attributes:
        source: A repository or layout; with a tag or digest where one tag is meant.
        target: The same at the other side; with a tag where one tag is meant.
    """

    source: Reference
    target: Reference


@dataclass(frozen=True, slots=True)
class Traits:
    """Properties of an artifact for the filters.

    Attributes:
        artifact_type: Of the manifest, or None.
        dialect: `cnai`, `draft` or `modelpack`; None for what is no model.
        roles: Roles of its layers, such as `weight`.
        size: Bytes of all its blobs.
        licences: As its config names them.
        architecture: As its config names it, or None.
    """

    artifact_type: str | None = None
    dialect: str | None = None
    roles: frozenset[str] = frozenset()
    size: int = 0
    licences: tuple[str, ...] = ()
    architecture: str | None = None


def is_digest_tag(tag: str) -> bool:
    """Return whether a tag belongs to a digest, as those of cosign do, or the fallback of the referrers API."""
    return _DIGEST_TAG.match(tag) is not None


def select_tags(entry: SyncEntry, tags: Iterable[str]) -> list[str]:
    """The tags that an entry copies, in the order given, each once.

    A tag is chosen by `tags` or by one of the `tagSets`; without any of them all are. Tags of digests
    (`sha256-HEX…`) are copied with what they belong to: they are chosen only where an `allow` says `sha256` itself.
    What is no valid tag is never chosen.
    """
    listed = [tag for tag in dict.fromkeys(tags) if _is_tag(tag)]
    if not entry.tag_sets:
        return [tag for tag in listed if not is_digest_tag(tag)]
    return [tag for tag in listed if any(_in_set(each, tag) for each in entry.tag_sets)]


def select_repositories(entry: SyncEntry, names: Iterable[str]) -> list[str]:
    """The repositories that an entry of type `registry` copies, in the order given, each once.

    What is no valid name is never chosen, and nothing that lies where the entry itself writes.
    """
    return [
        name
        for name in dict.fromkeys(names)
        if _is_repository(name) and passes(entry.sync.repos, name) and not _is_own(entry, name)
    ]


def prunable_tags(entry: SyncEntry, tags: Iterable[str]) -> list[str]:
    """The tags at the target that an entry may delete if the source does not have them.

    They are those of `prune.tags`, or without it those that the entry would copy; never the tags of digests.
    """
    if entry.prune.tags is None:
        return [tag for tag in select_tags(entry, tags) if not is_digest_tag(tag)]
    return [tag for tag in dict.fromkeys(tags) if not is_digest_tag(tag) and passes(entry.prune.tags, tag)]


def pair(entry: SyncEntry, repository: str | None = None, tag: str | None = None) -> Pair:
    """Source and target of an entry.

    Args:
        entry: The entry; one of type `image` needs nothing else.
        repository: Name at the source, for an entry of type `registry`.
        tag: Tag, for an entry of type `registry` or `repository`; None for the repository itself.
    """
    source, target = entry.source, entry.target
    if isinstance(source, RegistryPlace) and isinstance(target, RegistryPlace):
        assert repository is not None
        source, target = source.repository(repository), target.repository(repository)
    assert not isinstance(source, RegistryPlace)
    assert not isinstance(target, RegistryPlace)
    return Pair(source, target) if tag is None else Pair(source.at(tag, source.digest), target.at(tag, target.digest))


def wants_model(entry: SyncEntry, traits: Traits) -> str | None:
    """Why the filters for models leave an artifact out; None if they do not."""
    wanted = entry.sync.models
    if wanted is None:
        return None
    if wanted.artifact_types is not None and traits.artifact_type not in wanted.artifact_types:
        return f"artifact type {traits.artifact_type or 'not given'}"
    if wanted.dialects is not None and traits.dialect not in wanted.dialects:
        return f"dialect {traits.dialect}" if traits.dialect else "no model"
    if wanted.roles is not None and not traits.roles.intersection(wanted.roles):
        return f"no layer of the role {' or '.join(wanted.roles)}"
    if wanted.size is not None and wanted.size.min is not None and traits.size < wanted.size.min:
        return f"{human_size(traits.size)}, less than {human_size(wanted.size.min)}"
    if wanted.size is not None and wanted.size.max is not None and traits.size > wanted.size.max:
        return f"{human_size(traits.size)}, more than {human_size(wanted.size.max)}"
    if wanted.licences is not None and (strange := _not_in(traits.licences, wanted.licences)):
        return f"licence {strange}"
    if wanted.architectures is not None and (
        strange := _not_in((traits.architecture,) if traits.architecture else (), wanted.architectures)
    ):
        return f"architecture {strange}"
    return None


def _not_in(given: tuple[str, ...], wanted: tuple[str, ...]) -> str | None:
    """The first of the names that is not wanted, whatever its case; `not given` where there is none."""
    known = {each.casefold() for each in wanted}
    return next((each for each in given if each.casefold() not in known), None if given else "not given")


def _in_set(chosen: TagFilter, tag: str) -> bool:
    if chosen.semver_range and not any(each.matches(tag) for each in chosen.semver_range):
        return False
    if is_digest_tag(tag) and not any("sha256" in each.pattern and each.fullmatch(tag) for each in chosen.allow):
        return False
    return passes(chosen, tag)


def passes(chosen: NameFilter | None, name: str) -> bool:
    """Return whether a filter for names lets a name through; one that is not there does."""
    if chosen is None:
        return True
    if chosen.allow and not any(each.fullmatch(name) for each in chosen.allow):
        return False
    return not any(each.fullmatch(name) for each in chosen.deny)


def _is_own(entry: SyncEntry, name: str) -> bool:
    source, target = entry.source, entry.target
    if not (isinstance(source, RegistryPlace) and isinstance(target, RegistryPlace)):
        return False
    return source.is_same_host(target) and bool(target.prefix) and name.startswith(target.prefix + "/")


def _is_tag(tag: str) -> bool:
    return _parses(f"localhost/x:{tag}") and tag != "" and "@" not in tag


def _is_repository(name: str) -> bool:
    return _parses(f"localhost/{name}") and ":" not in name and "@" not in name


def _parses(text: str) -> bool:
    try:
        parse_reference(text)
    except InvalidReference:
        return False
    return True
