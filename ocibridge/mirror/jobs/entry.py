# SPDX-License-Identifier: Apache-2.0
"""One entry of a mirror job, with the defaults in place."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from ...oci import Reference
from .jobfile import ModelFilter, NameFilter, Prune, TagFilter
from .places import RegistryPlace


@dataclass(frozen=True, slots=True)
class SyncEntry:
    """One entry of a job, with the defaults in place.

    Attributes:
        number: Its place in `sync`, from 0.
        type: What source and target are.
        source: A place of type `registry`, a repository or layout without tag, or an image with its tag or digest.
        target: The same; an image has its tag.
        tag_sets: Filters for tags, one of which a tag has to pass; none: all tags. See `select_tags`.
        repos: Filter for repositories of type `registry`. See `select_repositories`.
        platforms: Platforms of an index to copy; empty for all.
        referrers: Whether referrers are copied.
        referrer_types: Artifact types of the referrers that are wanted; empty for all.
        digest_tags: Whether the tags `sha256-HEX…` of what is copied come along.
        fast_check: Whether equal digests end the matter, without a look at referrers and digest tags.
        force_recursive: Whether the target is asked for every blob, whatever was there before.
        backup: Template with `{tag}` of the tag that keeps what is replaced, or None.
        interval: How often the entry is due, or None.
        schedule: Cron line that says when it is due, or None. See `ocibridge.mirror.schedule.next_run`.
        models: Filters for models, or None. See `wants_model`.
        also: Names of the companions that are made at the target.
        dialect: Dialect that the target gets, or None for the manifest as it is.
        prune: What may be deleted at the target because the job does not bring it.
    """

    number: int
    type: Literal["registry", "repository", "image"]
    source: Reference | RegistryPlace
    target: Reference | RegistryPlace
    tag_sets: tuple[TagFilter, ...] = ()
    repos: NameFilter | None = None
    platforms: tuple[str, ...] = ()
    referrers: bool = True
    referrer_types: tuple[str, ...] = ()
    digest_tags: bool = True
    fast_check: bool = False
    force_recursive: bool = False
    backup: str | None = None
    interval: timedelta | None = None
    schedule: str | None = None
    models: ModelFilter | None = None
    also: tuple[str, ...] = ()
    dialect: str | None = None
    prune: Prune = field(default_factory=Prune)
