# SPDX-License-Identifier: Apache-2.0
"""The two sides of an entry."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...errors import InvalidReference
from ...oci import ArchiveReference, LayoutReference, Reference, RegistryReference, parse_reference, without_scheme
from ...oci.reference import web_address
from ...paths import show
from ...stores.registry.options import DOCKER_HUB


@dataclass(frozen=True, slots=True)
class RegistryPlace:
    """All repositories of a registry, or those below a prefix.

    Attributes:
        host: Host with its port, as the user wrote it.
        prefix: Part of the names that all of them have, without the `/` behind it; empty for all.
    """

    host: str
    prefix: str = ""

    def repository(self, name: str) -> RegistryReference:
        """The repository with a name below the prefix."""
        return RegistryReference(self.host, f"{self.prefix}/{name}" if self.prefix else name)

    def is_same_host(self, other: RegistryPlace) -> bool:
        """Return whether both are in one registry."""
        return canonical_host(self.host) == canonical_host(other.host)

    def __str__(self) -> str:
        return f"{self.host}/{self.prefix}" if self.prefix else self.host


def canonical_host(host: str) -> str:
    """One name for all names of a host that mean the same."""
    return "docker.io" if host in DOCKER_HUB else host.lower()


def canonical_name(reference: Reference) -> str:
    """One name for all names of a repository or layout that mean the same."""
    if isinstance(reference, RegistryReference):
        return f"{canonical_host(reference.host)}/{reference.repository}"
    if isinstance(reference, LayoutReference):
        return f"oci:{reference.path.resolve()}"
    return reference.name


def parse_place(text: str, *, prefix: bool) -> RegistryPlace:
    """`HOST`, or `HOST/PREFIX` where `prefix` is true; `oci://` or `docker://` may stand before it.

    Raises:
        InvalidReference: it is neither.
    """
    _refuse_login(text)
    if address := web_address(text):
        raise InvalidReference(f"{show(address[0])} is a web address, not a registry", hint=f"write {address[1]}")
    host, _, rest = without_scheme(text).strip("/").partition("/")
    reference = parse_reference(f"{host}/{rest or 'x'}")
    if not isinstance(reference, RegistryReference) or reference.tag or reference.digest:
        raise InvalidReference("this is no registry", hint="write HOST[:PORT]" + ("[/PREFIX]" if prefix else ""))
    if rest and not prefix:
        raise InvalidReference(
            "a registry is copied as a whole, and has no path here",
            hint="write HOST[:PORT], and choose with repos.allow",
        )
    return RegistryPlace(host, rest)


def parse_side(text: str, folder: Path) -> Reference:
    """A reference; a relative path in it is taken from `folder`.

    Raises:
        InvalidReference: it is none, or an archive.
    """
    _refuse_login(text)
    reference = parse_reference(text)
    if isinstance(reference, ArchiveReference):
        raise InvalidReference(
            "an archive cannot be kept in sync", hint="name a layout folder (oci:DIR), or use 'ocibridge copy'"
        )
    if isinstance(reference, LayoutReference):
        return LayoutReference(folder / reference.path, reference.tag, reference.digest)
    return reference


def _refuse_login(text: str) -> None:
    """Refuse a text with an `@` that begins no digest: it may contain a password, which no message may show."""
    _, at, rest = text.partition("@")
    if at and not rest.startswith("sha256:"):
        raise InvalidReference(
            "there is something before an '@' that begins no digest", hint="logins belong into creds"
        )
