# SPDX-License-Identifier: Apache-2.0
"""Hints for a missing tag: the tags that a store has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from ..errors import NotFound, OcibridgeError
from ..paths import show
from .base import TagLister

MOST = 8
"""Tags that a message names."""
MANIFEST_UNKNOWN = "MANIFEST_UNKNOWN"
NAME_UNKNOWN = "NAME_UNKNOWN"
"""Error codes of the distribution specification."""
_COMPARED = 2000
"""Tags that are compared with the one that is missing."""
_SIMILAR = 0.6
_LONGEST = 128
_PART = re.compile(r"[0-9]+|[^0-9]+")
_PLAIN = re.compile(r"[\w.:/@-]{1,120}", re.ASCII)


@contextmanager
def naming_tags(store: TagLister, version: str) -> Iterator[None]:
    """Let the hint of a `NotFound` say which tags there are, where the block asks for a tag that a user gave.

    They are listed only then, by one more request to a registry. What cannot be listed leaves the error as it is.

    Args:
        store: What the block asks.
        version: The tag; nothing is listed for a digest.
    """
    try:
        yield
    except NotFound as exc:
        if not version.startswith("sha256:") and (exc.status == 404 or exc.code == MANIFEST_UNKNOWN):
            with suppress(OcibridgeError):
                exc.hint = _there(store, version)
        raise


def _there(store: TagLister, version: str) -> str:
    """The next step for a tag that is not there.

    Raises:
        OcibridgeError: the tags cannot be listed.
    """
    try:
        return some_tags(closest(store.tags(), version)) or "the repository has no tag"
    except NotFound as exc:
        if exc.code != NAME_UNKNOWN:
            raise
        return "there is no such repository, or you may not see it; check its name"


def some_tags(tags: Sequence[str], noun: str = "tags") -> str:
    """The first of some tags, or of other names, for a message; empty where there are none.

    Example:
        >>> some_tags(["v2", "v1"])
        'tags there: v2, v1'
    """
    if not tags:
        return ""
    names = ", ".join(tag if _PLAIN.fullmatch(tag) else show(tag) for tag in tags[:MOST])
    return f"{noun} there: {names}" + (f" (of {len(tags)})" if len(tags) > MOST else "")


def closest(tags: Sequence[str], wanted: str) -> list[str]:
    """Tags in the order in which they may be meant: those that look like `wanted`, then the others by number downwards.

    Tags of digests (`sha256-HEX…`) are left out where there are others.

    Example:
        >>> closest(["v1", "v10", "v9", "main"], "mian")
        ['main', 'v10', 'v9', 'v1']
    """
    from difflib import SequenceMatcher  # only where something is missing

    named = [tag for tag in tags if not tag.startswith("sha256-")] or list(tags)
    ordered = sorted(named, key=_by_number, reverse=True)
    matcher = SequenceMatcher(b=wanted[:_LONGEST].lower(), autojunk=False)
    found: list[tuple[float, str]] = []
    for tag in ordered[:_COMPARED]:
        # In an archive of many repositories, tags are whole references.
        text = tag if ":" in wanted else tag.rpartition(":")[2]
        matcher.set_seq1(text[:_LONGEST].lower())
        if matcher.real_quick_ratio() >= _SIMILAR and matcher.quick_ratio() >= _SIMILAR:
            found.append((matcher.ratio(), tag))
    similar = [tag for ratio, tag in sorted(found, key=lambda each: -each[0]) if ratio >= _SIMILAR]
    known = set(similar)
    return similar + [tag for tag in ordered if tag not in known]


def _by_number(tag: str) -> list[tuple[int, str]]:
    """A key that puts v10 after v9."""
    return [(int(part), "") if "0" <= part[0] <= "9" else (-1, part) for part in _PART.findall(tag[:_LONGEST])]
