# SPDX-License-Identifier: Apache-2.0
"""Finding the image companion of an artifact: by what refers to it, or by its usual tag."""

from __future__ import annotations

from dataclasses import dataclass

from .. import settings
from ..dialects import annotations as keys
from ..errors import AuthenticationError, FormatError, NetworkError, NotFound, StoreError
from ..oci import MEDIA_TYPE_INDEX, Reference
from .documents import Documents, Found
from .runtimes import IMAGE_CONFIG


@dataclass(frozen=True, slots=True)
class Related:
    """What belongs to an artifact.

    Attributes:
        image: Its image companion, if it has one.
        tag: The tag that leads to it, if that is the usual one.
        stale: The usual tag, where it leads to the image of another artifact.
    """

    image: Found | None
    tag: str | None = None
    stale: str | None = None


def find_image(documents: Documents, reference: Reference, artifact: Found) -> Related:
    """The image companion of an artifact.

    Args:
        documents: Those of its repository.
        reference: How it was named; its tag leads to the usual tag of the companion.
        artifact: The artifact.

    Raises:
        NetworkError: the registry cannot be reached.
    """
    digest = artifact.descriptor.digest
    named = reference.tag or (None if reference.digest else reference.version)
    tag = named and named + settings.IMAGE_SUFFIX
    tagged = _load(documents, tag) if tag else None
    if tagged is not None and tagged.subject is not None and tagged.subject.digest == digest:
        return Related(tagged, tag)
    stale = tag if tagged is not None and tagged.subject is not None else None
    for each in sorted(_referrers(documents, digest)):
        found = _load(documents, each)
        if found is not None and found.subject is not None and found.subject.digest == digest:
            return Related(found, None, stale)
    return Related(None, None, stale)


def _referrers(documents: Documents, digest: str) -> list[str]:
    try:
        entries = documents.store.referrers(digest)
    except (NetworkError, AuthenticationError):
        raise
    except StoreError:
        return []  # a registry that cannot list them has none that could be found
    return [
        each.digest
        for each in entries
        if (each.annotations or {}).get(keys.COMPANION) == "image"
        or (each.media_type == MEDIA_TYPE_INDEX and each.artifact_type is None)
        or each.artifact_type == IMAGE_CONFIG
    ]


def _load(documents: Documents, version: str) -> Found | None:
    try:
        return documents.load(version)
    except (NotFound, FormatError):
        return None
