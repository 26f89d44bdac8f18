# SPDX-License-Identifier: Apache-2.0
"""The metadata that the sinks of this format compare everything with."""

from __future__ import annotations

from collections.abc import Mapping

from ...errors import FormatError, IntegrityError, LimitError
from ...io.content import BytesContent
from ...io.readers import Reader, chunks
from ...model import StoredModel
from ...paths import show
from ...settings import Limits
from .manifest import MANIFEST, parse_manifest
from .reader import ENCRYPTED
from .skeleton import FOLDER, ORIGINAL, SKELETON, Skeleton, parse_skeleton

DAMAGED = "the artifact is damaged or incomplete; publish the archive again"


class SkeletonCheck:
    """Checks of written files against skeleton, manifest and recorded identity.

    Args:
        owner: What is being written, for messages.
        stored: What the publisher recorded.
        limits: See `ocibridge.settings.Limits`.

    Attributes:
        skeleton: The skeleton, once it has arrived.
    """

    def __init__(self, owner: str, stored: StoredModel, limits: Limits) -> None:
        self._owner = owner
        self._limit = limits.metadata
        self._identity = stored.identity if stored.format == "mlarchive" else None
        self._encrypted = is_encrypted(stored)
        self.skeleton: Skeleton | None = None

    def metadata(self, path: str, size: int, reader: Reader) -> BytesContent | None:
        """Take a skeleton or manifest, check it, and give its bytes back; None for any other file, which stays unread.

        Raises:
            LimitError: it is too large.
            FormatError: it is not valid, or dangerous (see `parse_manifest`).
        """
        if path not in (SKELETON, MANIFEST):
            return None
        if size > self._limit:
            raise LimitError(f"{self._owner}: {path} has {size} bytes, more than the {self._limit} accepted")
        data = b"".join(bytes(chunk) for chunk in chunks(reader))
        if path == SKELETON:
            self.skeleton = parse_skeleton(data, self._owner, self._limit)
        else:
            parse_manifest(data, self._owner, self._limit)
        return BytesContent(data)

    def check(self, hashes: Mapping[str, str]) -> str | None:
        """The identity, if all that the skeleton lists has arrived; None for what never was an MLSteam archive.

        Args:
            hashes: Hex sha256 by path of what has arrived.

        Raises:
            IntegrityError: something is missing, too many, or not what was promised.
            FormatError: the skeleton is missing.
        """
        if self._encrypted:
            return self._check_encrypted(hashes)
        members = {path: sha256 for path, sha256 in hashes.items() if not path.startswith(FOLDER)}
        if self.skeleton:
            self._check_original(hashes, self.skeleton)
            return self.skeleton.check(members, self._identity, self._owner)
        if self._identity:
            raise FormatError(f"{self._owner}: no {SKELETON} arrived", hint=DAMAGED)
        return None

    def _check_original(self, hashes: Mapping[str, str], skeleton: Skeleton) -> None:
        expected = {SKELETON, ORIGINAL} if skeleton.original else {SKELETON}
        extra = {path for path in hashes if path.startswith(FOLDER)} ^ expected
        if extra:
            raise IntegrityError(
                f"{self._owner}: the file {show(min(extra))} is missing, or should not be there", hint=DAMAGED
            )
        if skeleton.original and hashes[ORIGINAL] != skeleton.sha256:
            raise IntegrityError(f"{self._owner}: {ORIGINAL} has not the sha256 of the archive", hint=DAMAGED)

    def _check_encrypted(self, hashes: Mapping[str, str]) -> str:
        found = [f"mlarchive:{sha256}" for sha256 in hashes.values()]
        if len(found) != 1 or self._identity not in (None, found[0]):
            raise IntegrityError(
                f"{self._owner}: what arrived is not the encrypted package that was published", hint=DAMAGED
            )
        return found[0]


def is_encrypted(stored: StoredModel) -> bool:
    """Return whether a stored model is an encrypted package."""
    return stored.format == "mlarchive" and stored.origin.get(ENCRYPTED) == "true"
