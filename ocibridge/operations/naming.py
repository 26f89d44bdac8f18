# SPDX-License-Identifier: Apache-2.0
"""`tags`, `ls` and `tag`: the names in a registry or layout, and new ones for what is there."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from ..errors import StoreError, UsageError
from ..oci import Reference, parse_reference
from ..oci.reference import check_tag
from ..stores.missing import naming_tags
from ..stores.opening import open_store
from .login import check_host
from .reports import LsReport, TagReport, TagsReport
from .tags import add_tags

if TYPE_CHECKING:
    from ..stores.registry import RegistryOptions

_NO_CATALOG = (401, 403, 404, 405)
"""Statuses of registries that list their repositories to nobody, or not to everybody."""


def tags(repository: str | Reference, *, registry: RegistryOptions | None = None) -> TagsReport:
    """List the tags of a repository, a layout or an archive ("Listing Tags").

    Args:
        repository: `HOST[:PORT]/REPOSITORY`, `oci:DIR` or `oci-archive:FILE`.
        registry: Credentials and TLS.

    Raises:
        UsageError: a tag or digest is given.
        NotFound: there is no such repository, layout or archive.
        StoreError: the registry refused, or could not be reached.
    """
    place = parse_reference(repository) if isinstance(repository, str) else repository
    if place.tag or place.digest:
        raise UsageError(
            f"the tags of a repository are listed, and {place} is one artifact", hint=f"write {place.name}"
        )
    with open_store(place, registry) as store:
        return TagsReport(source=place.name, tags=list(store.tags()), warnings=list(store.warnings))


def ls(host: str, *, registry: RegistryOptions | None = None) -> LsReport:
    """List the repositories of a registry.

    Args:
        host: `HOST[:PORT]`.
        registry: Credentials and TLS.

    Raises:
        UsageError: it is no host.
        StoreError: the registry lists no repositories, or not to this user, or could not be reached.
        LimitError: it lists more than any sensible registry has.
    """
    check_host(host, "ls")
    from ..stores.registry import RegistryClient

    with closing(RegistryClient(host, options=registry)) as client:
        try:
            found = list(client.list_repositories(host))
        except StoreError as exc:
            if exc.status not in _NO_CATALOG:
                raise
            hint = f"name a repository: ocibridge tags {host}/REPOSITORY"
            if exc.status in (401, 403):
                hint = f"log in as a user who may, with 'ocibridge login {host}', or {hint}"
            text = f"{host} does not list its repositories (status {exc.status})"
            raise type(exc)(text, hint=hint, status=exc.status, code=exc.code) from None
        return LsReport(source=host, repositories=found, warnings=list(client.host(host).warnings))


def tag(source: str | Reference, *names: str, registry: RegistryOptions | None = None) -> TagReport:
    """Give an artifact, image or index more tags in its repository, layout or archive; no byte of it moves.

    A tag that leads to something else is moved.

    Args:
        source: `HOST[:PORT]/REPOSITORY[:TAG|@DIGEST]`, `oci:DIR[:TAG]` or `oci-archive:FILE[:TAG]`.
        names: New tags.
        registry: Credentials and TLS.

    Raises:
        UsageError: no new tag is given.
        InvalidReference: a new tag is none.
        NotFound: the source is not there.
        StoreError: the store refused it, or could not be reached.
    """
    reference = parse_reference(source) if isinstance(source, str) else source
    if not names:
        raise UsageError("the new tag is missing", hint=f"write 'ocibridge tag {reference} NEW'")
    for each in names:
        check_tag(each)
    with open_store(reference, registry, write=True) as store:
        with naming_tags(store, reference.version):
            digest = store.resolve(reference.version).digest
        with store.batch():
            add_tags(store, digest, list(dict.fromkeys(names)))
        return TagReport(
            source=str(reference.pinned(digest)),
            digest=digest,
            tags=list(dict.fromkeys(names)),
            warnings=list(store.warnings),
        )
