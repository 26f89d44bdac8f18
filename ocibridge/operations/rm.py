# SPDX-License-Identifier: Apache-2.0
"""`rm`: a tag, or a manifest with all its tags, is deleted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import NotFound, StoreError, UsageError
from ..oci import Descriptor, Reference, parse_reference
from ..settings import CONCURRENCY
from ..stores.base import Store
from ..stores.missing import MOST, naming_tags
from ..stores.opening import open_store
from ..transfer import Progress, Workers
from ..transfer.referrers import fallback_tag, referrers_of
from ..transfer.session import CopySession
from .companions import companion_suffixes
from .copy import belongs
from .options import RmOptions
from .reports import RemovedReport, RmReport

if TYPE_CHECKING:
    from ..stores.registry import RegistryOptions


def rm(
    target: str | Reference, options: RmOptions = RmOptions(), *, registry: RegistryOptions | None = None
) -> RmReport:
    """Delete a tag and nothing else, or a manifest by its digest ("Deleting tags", "Deleting Manifests").

    Blobs stay until the registry collects its garbage; a layout keeps them.

    Args:
        target: `HOST[:PORT]/REPOSITORY:TAG` or `…@DIGEST`, or the same in `oci:DIR` or `oci-archive:FILE`.
        options: What else is deleted.
        registry: Credentials and TLS.

    Raises:
        UsageError: neither tag nor digest is given, or tags would go that `all_tags` does not allow to go.
        NotFound: it is not there.
        StoreError: the registry does not allow it, refused, or could not be reached.
    """
    reference = parse_reference(target) if isinstance(target, str) else target
    if not (reference.tag or reference.digest):
        raise UsageError(
            f"{reference} names neither tag nor digest", hint=f"write {reference}:TAG; 'ocibridge tags' lists the tags"
        )
    whole = options.all_tags or reference.digest is not None
    with open_store(reference, registry, write=True) as store:
        with naming_tags(store, reference.version):
            root = store.resolve(reference.version)
        plan = _manifests(store, reference, root, options) if whole else _tags(store, reference, root, options)
        if not options.dry_run:
            with store.batch():
                for each in plan:
                    store.delete(each.tag or each.digest)
        warnings = [] if whole or options.companions else _left(store, reference, root)
        return RmReport(
            target=str(reference),
            digest=root.digest,
            dry_run=options.dry_run,
            removed=plan,
            warnings=[*warnings, *store.warnings],
        )


def _tags(store: Store, reference: Reference, root: Descriptor, options: RmOptions) -> list[RemovedReport]:
    """The tag, and those of its companions."""
    companions = _companions(store, reference.version, root.digest) if options.companions else {}
    return [
        RemovedReport(kind="tag", reference=str(reference.pinned(digest)), digest=digest, tag=tag, tags=[tag])
        for tag, digest in {**companions, reference.version: root.digest}.items()
    ]


def _left(store: Store, reference: Reference, root: Descriptor) -> list[str]:
    return [
        f"the companion {tag} stays; delete it with 'ocibridge rm {reference.at(tag)}'"
        for tag in _companions(store, reference.version, root.digest)
    ]


def _companions(store: Store, tag: str, digest: str) -> dict[str, str]:
    """Digests of the companions that belong to the model of a tag, by their tags."""
    there = ((tag + suffix, store.head(tag + suffix)) for suffix in companion_suffixes().values())
    return {name: each.digest for name, each in there if each and belongs(store, each.digest, digest)}


def _manifests(store: Store, reference: Reference, root: Descriptor, options: RmOptions) -> list[RemovedReport]:
    """The manifest with all its tags, after what refers to it.

    Raises:
        StoreError: it has tags, and `all_tags` is not given.
    """
    tags = _all_tags(store)
    own = tags.get(root.digest, [])
    if own and not options.all_tags:
        names = ", ".join(own[:MOST]) + (f" and {len(own) - MOST} more" if len(own) > MOST else "")
        raise StoreError(
            f"{reference} would be deleted with its tags: {names}",
            hint=f"delete one tag with 'ocibridge rm {reference.at(own[0])}', or all with --all-tags",
        )
    digests = dict.fromkeys(_belonging(store, root.digest, own) if options.companions else ())
    plan = [
        RemovedReport(kind="manifest", reference=str(reference.pinned(each)), digest=each, tags=tags.get(each, []))
        for each in [*digests, root.digest]
    ]
    if options.companions:  # signatures by tag, and the list of referrers of registries without the API
        marks = tuple(fallback_tag(each.digest) for each in plan)
        plan[:0] = [
            RemovedReport(kind="tag", reference=str(reference.pinned(digest)), digest=digest, tag=tag, tags=[tag])
            for digest, every in tags.items()
            for tag in every
            if tag.startswith(marks) and digest not in {each.digest for each in plan}
        ]
    return plan


def _all_tags(store: Store) -> dict[str, list[str]]:
    """The tags by digest."""
    try:
        names = store.tags()
    except NotFound:  # as some registries say of a repository without tags
        return {}
    found: dict[str, list[str]] = {}
    heads = Workers(CONCURRENCY, Progress(), [store]).map(store.head, names)
    for name, head in zip(names, heads, strict=True):
        if head is not None:
            found.setdefault(head.digest, []).append(name)
    return found


def _belonging(store: Store, root: str, tags: Sequence[str]) -> list[str]:
    """Digests of companions and referrers, and of what refers to these: the last first."""
    session = CopySession()
    found = dict.fromkeys(digest for tag in tags for digest in _companions(store, tag, root).values())
    waiting = [root, *found]
    while waiting:
        for each in referrers_of(store, waiting.pop(), (), session, lambda _: None):
            if each.digest not in found:
                found[each.digest] = None
                waiting.append(each.digest)
    return list(reversed(found))
