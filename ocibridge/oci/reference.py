# SPDX-License-Identifier: Apache-2.0
"""References: `host[:port]/repository[:tag][@digest]`, `oci:DIR[:TAG]`, `oci-archive:FILE[:TAG]`.

Grammar of repositories and tags: distribution-spec, "Pulling manifests".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import FormatError, InvalidReference
from ..paths import show
from .digest import parse_digest

DEFAULT_TAG = "latest"
_TAG = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}")
_REPOSITORY = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*")
_HOST = re.compile(
    r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*|\[[0-9a-fA-F:.]+\])"
    r"(?::[0-9]{1,5})?"
)


@dataclass(frozen=True, slots=True)
class RegistryReference:
    """A manifest in a registry.

    Attributes:
        host: Host with its port, if any, as the user wrote it.
        repository: Repository name.
        tag: Tag, if one was given.
        digest: Digest, if one was given; it wins over the tag.
    """

    host: str
    repository: str
    tag: str | None = None
    digest: str | None = None

    @property
    def name(self) -> str:
        """`host/repository`."""
        return f"{self.host}/{self.repository}"

    @property
    def version(self) -> str:
        """The digest, else the tag, else `latest`."""
        return self.digest or self.tag or DEFAULT_TAG

    def pinned(self, digest: str) -> RegistryReference:
        """The same repository at a digest."""
        return replace(self, tag=None, digest=digest)

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return self.name + tag + (f"@{self.digest}" if self.digest else "")


@dataclass(frozen=True, slots=True)
class LayoutReference:
    """A manifest in an OCI image layout: a folder. See `RegistryReference` for tag and digest."""

    path: Path
    tag: str | None = None
    digest: str | None = None
    scheme = "oci"

    @property
    def name(self) -> str:
        """`oci:DIR`."""
        return f"{self.scheme}:{self.path}"

    @property
    def version(self) -> str:
        """The digest, else the tag, else `latest`."""
        return self.digest or self.tag or DEFAULT_TAG

    def pinned(self, digest: str) -> LayoutReference:
        """The same layout at a digest."""
        return replace(self, tag=None, digest=digest)

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return self.name + tag + (f"@{self.digest}" if self.digest else "")


@dataclass(frozen=True, slots=True)
class ArchiveReference(LayoutReference):
    """A manifest in an OCI image layout packed as one tar file."""

    scheme = "oci-archive"


Reference = RegistryReference | LayoutReference | ArchiveReference


def parse_reference(text: str) -> Reference:
    """Parse a reference.

    Example:
        >>> parse_reference("localhost:5000/models/digits:v1").version
        'v1'

    Raises:
        InvalidReference: the text is no reference; the message says which part is wrong.
    """
    scheme, colon, rest = text.partition(":")
    if colon and scheme == "oci":
        return LayoutReference(*_split_layout(rest, text))
    if colon and scheme == "oci-archive":
        return ArchiveReference(*_split_layout(rest, text))
    return _parse_registry(text)


def _split_layout(rest: str, text: str) -> tuple[Path, str | None, str | None]:
    digest = None
    path, at, suffix = rest.rpartition("@")
    if at and suffix.startswith("sha256:"):
        rest, digest = path, _digest(suffix, text)
    tag = None
    path, colon, suffix = rest.rpartition(":")
    drive = len(path) == 1 and path.isalpha() and suffix[:1] in "/\\"
    if colon and not drive and "/" not in suffix:
        rest, tag = path, _tag(suffix, text)
    if not rest:
        raise InvalidReference(f"the reference {show(text)} names no path", hint="write oci:DIR:TAG")
    return Path(rest), tag, digest


def _parse_registry(text: str) -> RegistryReference:
    rest, at, suffix = text.partition("@")
    digest = _digest(suffix, text) if at else None
    host, slash, path = rest.partition("/")
    if not slash or not ("." in host or ":" in host or host == "localhost"):
        raise InvalidReference(
            f"the reference {show(text)} names no registry host",
            hint="write HOST[:PORT]/REPOSITORY[:TAG], oci:DIR[:TAG] or oci-archive:FILE[:TAG]",
        )
    if not _HOST.fullmatch(host):
        raise InvalidReference(
            f"the registry host {show(host)} in {show(text)} is not valid",
            hint="write HOST[:PORT]/REPOSITORY[:TAG] without a scheme such as https://",
        )
    repository, colon, tag = path.partition(":")
    if not _REPOSITORY.fullmatch(repository):
        raise InvalidReference(
            f"the repository {show(repository)} in {show(text)} is not valid",
            hint="use lower-case letters, digits and single '.', '_', '-' or '/' between them",
        )
    if host in ("docker.io", "index.docker.io") and "/" not in repository:
        repository = "library/" + repository
    return RegistryReference(host, repository, _tag(tag, text) if colon else None, digest)


def _tag(tag: str, text: str) -> str:
    if not _TAG.fullmatch(tag):
        raise InvalidReference(
            f"the tag {show(tag)} in {show(text)} is not valid",
            hint="use at most 128 letters, digits, '_', '.' and '-', starting with a letter, digit or '_'",
        )
    return tag


def _digest(digest: str, text: str) -> str:
    try:
        return parse_digest(digest, f"the reference {show(text)}")
    except FormatError as exc:
        raise InvalidReference(exc.message, hint=exc.hint) from None
