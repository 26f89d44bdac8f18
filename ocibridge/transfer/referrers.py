# SPDX-License-Identifier: Apache-2.0
"""Referrers of a manifest (distribution-spec, "Listing Referrers")."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..errors import FormatError, LimitError
from ..oci import MEDIA_TYPE_INDEX, Descriptor
from ..stores.base import Store
from .session import CopySession

MOST = 10_000
"""Referrers of one manifest."""


def referrers_of(
    store: Store, digest: str, types: Sequence[str], session: CopySession, warn: Callable[[str], None]
) -> list[Descriptor]:
    """The manifests that refer to `digest`, each once.

    A registry that has no list of them is not asked again where its tags are known and none is the fallback tag.

    Args:
        store: Where they are.
        digest: What they refer to.
        types: Artifact types that are wanted; none: all.
        session: What is known in this run.
        warn: Called with a sentence about a list that cannot be read.

    Raises:
        LimitError: there are more than any sensible tool makes.
        StoreError: the store could not be asked.
    """
    if store.capabilities.referrers_by_tag:
        known = session.known_digest_tags(store, digest)
        if known is not None and fallback_tag(digest) not in known:
            return []
    try:
        found = {each.digest: each for each in store.referrers(digest)}
    except FormatError as exc:
        warn(f"{store.name}: the list of what refers to {digest} cannot be read and was left out ({exc.message})")
        return []
    if len(found) > MOST:
        raise LimitError(
            f"{store.name} lists {len(found)} manifests that refer to {digest}, more than {MOST}",
            hint="leave them out, or name the artifact types that you need",
        )
    return [each for each in found.values() if not types or each.artifact_type in types]


def fallback_tag(digest: str) -> str:
    """The tag under which registries without the API list referrers (distribution-spec, "Referrers Tag Schema")."""
    return digest.replace(":", "-")


def is_fallback(tag: str, descriptor: Descriptor) -> bool:
    """Return whether what a digest tag leads to is that list, which each registry keeps for itself."""
    return len(tag) == len("sha256-") + 64 and descriptor.media_type == MEDIA_TYPE_INDEX
