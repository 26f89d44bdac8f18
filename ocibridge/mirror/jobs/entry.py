# SPDX-License-Identifier: Apache-2.0
"""One entry of a mirror job, with the defaults in place."""

from __future__ import annotations

from dataclasses import dataclass

from ...oci import Reference
from .jobfile import Prune, Sync, TagFilter
from .places import RegistryPlace


@dataclass(frozen=True, slots=True)
class SyncEntry:
    """One entry of a job, with the defaults in place.

    Attributes:
        number: Its place in `sync`, from 0.
        source: A place of type `registry`, a repository or layout without tag, or an image with its tag or digest.
        target: The same; an image has its tag.
        sync: Everything that the file says of it; `source` and `target` are the texts of the two above.
    """

    number: int
    source: Reference | RegistryPlace
    target: Reference | RegistryPlace
    sync: Sync

    @property
    def tag_sets(self) -> tuple[TagFilter, ...]:
        """Filters for tags, one of which a tag has to pass; none: all tags. See `select_tags`."""
        return tuple(each for each in (*(self.sync.tag_sets or ()), self.sync.tags) if each and each.model_fields_set)

    @property
    def referrer_types(self) -> tuple[str, ...]:
        """Artifact types of the referrers that are wanted; empty for all."""
        return tuple(each.artifact_type for each in self.sync.referrer_filters or ())

    @property
    def prune(self) -> Prune:
        """Limits of deletions at the target; the defaults, which delete nothing, for a single image."""
        return self.sync.prune if self.sync.prune and self.sync.type != "image" else Prune()
