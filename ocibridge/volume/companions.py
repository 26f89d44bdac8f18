# SPDX-License-Identifier: Apache-2.0
"""Find the companion image of an artifact: by its usual tag, or among the referrers."""

from __future__ import annotations

from dataclasses import dataclass

from .. import settings
from ..dialects import annotations as keys
from ..dialects.image import COMPANION_KIND
from ..errors import AuthenticationError, FormatError, NetworkError, NotFound, StoreError
from ..oci import MEDIA_TYPE_INDEX, Reference
from .documents import Documents, ManifestOrIndex
from .runtimes import IMAGE_CONFIG


@dataclass(frozen=True, slots=True)
class FoundImage:
    """Result of a search for the companion image of an artifact.

    Attributes:
        image: The companion image, or None.
        tag: The usual tag, if it points to the image.
        stale: The usual tag, if it points to the image of another artifact.
    """

    image: ManifestOrIndex | None
    tag: str | None = None
    stale: str | None = None


def find_image(documents: Documents, reference: Reference, artifact: ManifestOrIndex) -> FoundImage:
    """Find the companion image of an artifact.

    Args:
        documents: The documents of its repository.
        reference: The reference of the artifact; the usual tag of the companion is this tag with a suffix.
        artifact: The artifact.

    Raises:
        NetworkError: the registry cannot be reached.
    """
    digest = artifact.descriptor.digest
    named = reference.tag or (None if reference.digest else reference.version)
    tag = named and named + settings.IMAGE_SUFFIX
    tagged = _load(documents, tag) if tag else None
    if tagged is not None and tagged.subject is not None and tagged.subject.digest == digest:
        return FoundImage(tagged, tag)
    stale = tag if tagged is not None and tagged.subject is not None else None
    for each in sorted(_referrers(documents, digest)):
        found = _load(documents, each)
        if found is not None and found.subject is not None and found.subject.digest == digest:
            return FoundImage(found, None, stale)
    return FoundImage(None, None, stale)


def _referrers(documents: Documents, digest: str) -> list[str]:
    try:
        entries = documents.store.referrers(digest)
    except (NetworkError, AuthenticationError):
        raise
    except StoreError:
        return []  # a registry that cannot list referrers: none can be found
    return [
        each.digest
        for each in entries
        if (each.annotations or {}).get(keys.COMPANION) == COMPANION_KIND
        or (each.media_type == MEDIA_TYPE_INDEX and each.artifact_type is None)
        or each.artifact_type == IMAGE_CONFIG
    ]


def _load(documents: Documents, version: str) -> ManifestOrIndex | None:
    try:
        return documents.load(version)
    except (NotFound, FormatError):
        return None
