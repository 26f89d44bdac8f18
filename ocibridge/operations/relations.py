# SPDX-License-Identifier: Apache-2.0
"""Everything that belongs to an artifact in its repository: companions, and manifests that refer to it."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from ..errors import AuthenticationError, FormatError, InvalidReference, NetworkError, NotFound, StoreError
from ..oci import MEDIA_TYPE_INDEX, Descriptor, Index, Reference, parse_document
from ..stores.base import Store
from .artifacts import Fetched
from .companions import IMAGE, companion_suffixes, main_tag
from .original import stored_manifest
from .reports import CompanionReport, ReferrerReport

_DEPTH = 5
"""Referrers of referrers that are looked for: a signature of an SBOM of an image is three."""


def companions_of(store: Store, reference: Reference, fetched: Fetched) -> list[CompanionReport]:
    """The companions that the tag of an artifact has, if they belong to it as it is now."""
    if reference.digest and not reference.tag:
        return []
    tag = reference.tag or reference.version
    found = []
    # The tag may be that of a companion, or look like one.
    for main in dict.fromkeys((tag, main_tag(tag))):
        for kind, suffix in companion_suffixes().items():
            with suppress(NotFound, FormatError, InvalidReference):
                descriptor, data = store.fetch_manifest(main + suffix)
                if _belongs(kind, descriptor, data, store, reference.at(main), fetched):
                    pinned = str(reference.pinned(descriptor.digest))
                    found.append(CompanionReport(kind=kind, tag=main + suffix, reference=pinned))
    return found


def _belongs(kind: str, descriptor: Descriptor, data: bytes, store: Store, main: Reference, fetched: Fetched) -> bool:
    """Return whether a manifest is the companion of the artifact as it is now."""
    if kind != IMAGE:
        return stored_manifest(kind, fetched, store, main).descriptor.digest == descriptor.digest
    if descriptor.media_type != MEDIA_TYPE_INDEX:
        return False
    subject = parse_document(Index, data, kind, store.limits.manifest).subject
    return subject is not None and subject.digest == fetched.descriptor.digest


def referrers_to(
    store: Store, reference: Reference, digest: str, known: Collection[str], depth: int = _DEPTH
) -> list[ReferrerReport]:
    """The manifests that refer to `digest`, each with those that refer to it; none where the store cannot list them.

    Args:
        store: Where they are.
        reference: Any of that place.
        digest: The manifest that they refer to.
        known: Pinned references that are left out.
        depth: See `_DEPTH`.

    Raises:
        NetworkError: the registry cannot be reached.
    """
    try:
        entries = store.referrers(digest)
    except (NetworkError, AuthenticationError):
        raise
    except (StoreError, FormatError):
        return []
    found = {str(reference.pinned(each.digest)): each for each in entries}
    return [
        ReferrerReport(
            reference=pinned,
            media_type=each.media_type,
            artifact_type=each.artifact_type,
            size=each.size,
            annotations=each.annotations or {},
            referrers=referrers_to(store, reference, each.digest, {*known, pinned}, depth - 1) if depth else [],
        )
        for pinned, each in found.items()
        if pinned not in known
    ]
