# SPDX-License-Identifier: Apache-2.0
"""Several tags in one push: `HOST/REPOSITORY:v1,latest`, as oras writes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import InvalidReference
from ..oci import Reference, parse_reference
from ..paths import show

if TYPE_CHECKING:
    from ..stores.base import Store


def parse_tags(text: str) -> tuple[Reference, tuple[str, ...]]:
    """Parse a target with any number of tags.

    Returns:
        The reference with the first tag, if there is one, and all tags; `latest` where none is given.

    Raises:
        InvalidReference: it is no reference, or a tag is malformed or given twice.

    Example:
        >>> parse_tags("oci:layout:v1,v2")[1]
        ('v1', 'v2')
    """
    name, _, last = text.rpartition(":")
    if "," not in last or "/" in last or "@" in name or name in ("oci", "oci-archive"):
        reference = parse_reference(text)
        return reference, (reference.version,)
    tags = last.split(",")
    references = [parse_reference(f"{name}:{tag}") for tag in tags]
    for tag in tags:
        if tags.count(tag) > 1:
            raise InvalidReference(f"the tag {show(tag)} is given twice", hint="leave out one of the two")
    return references[0], tuple(tags)


def add_tags(store: Store, digest: str, tags: Sequence[str]) -> None:
    """Give more tags to a manifest that the store has.

    Raises:
        StoreError: the store refuses one.
    """
    if not tags:
        return
    descriptor, data = store.fetch_manifest(digest)
    for tag in tags:
        store.push_manifest(data, descriptor.media_type, tag)
