# SPDX-License-Identifier: Apache-2.0
"""References: `host[:port]/repository[:tag][@digest]`, `oci:DIR[:TAG]`, `oci-archive:FILE[:TAG]`.

A registry may also be written as `oci://host/…` (Helm, Flux, KServe) or `docker://host/…` (skopeo). Grammar of
repositories and tags: distribution-spec, "Pulling manifests".
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import FormatError, InvalidReference
from ..paths import show
from .digest import parse_digest

if TYPE_CHECKING:
    from typing_extensions import Self

DEFAULT_TAG = "latest"
_REGISTRY_SCHEMES = ("oci", "docker")
_FORMS = "HOST[:PORT]/REPOSITORY[:TAG], oci:DIR[:TAG] or oci-archive:FILE[:TAG]"
_HUB = re.compile(
    r"(?:hf://|(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/)(?P<name>[\w.-]+/[\w.-]+)?", re.IGNORECASE
)
_TAG = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}")
_REPOSITORY = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*")
_HOST = re.compile(
    r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*|\[[0-9a-fA-F:.]+\])"
    r"(?::[0-9]{1,5})?"
)


class Reference(ABC):
    """A manifest in a store: the store, and a tag or digest in it. Each kind of store has a reference of its own."""

    __slots__ = ()

    @property
    @abstractmethod
    def name(self) -> str:
        """The store, without tag and digest."""

    @property
    @abstractmethod
    def tag(self) -> str | None:
        """Tag, if one was given."""

    @property
    @abstractmethod
    def digest(self) -> str | None:
        """Digest, if one was given; it wins over the tag."""

    @abstractmethod
    def at(self, tag: str | None = None, digest: str | None = None) -> Self:
        """The same store, at another tag and digest."""

    @property
    def version(self) -> str:
        """The digest, else the tag, else `latest`."""
        return self.digest or self.tag or DEFAULT_TAG

    def pinned(self, digest: str) -> Self:
        """The same store at a digest."""
        return self.at(digest=digest)

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return self.name + tag + (f"@{self.digest}" if self.digest else "")


@dataclass(frozen=True, slots=True)
class RegistryReference(Reference):
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

    def at(self, tag: str | None = None, digest: str | None = None) -> Self:
        """See `Reference.at`."""
        return replace(self, tag=tag, digest=digest)


@dataclass(frozen=True, slots=True)
class LayoutReference(Reference):
    """A manifest in an OCI image layout: a folder. See `RegistryReference` for tag and digest."""

    path: Path
    tag: str | None = None
    digest: str | None = None
    scheme = "oci"

    def __post_init__(self) -> None:
        # POSIX lets a path begin with two slashes, and after "oci:" these would be read as a registry.
        text = str(self.path)
        if text.startswith("//"):
            object.__setattr__(self, "path", Path(text[1:]))

    @property
    def name(self) -> str:
        """`oci:DIR`."""
        return f"{self.scheme}:{self.path}"

    def at(self, tag: str | None = None, digest: str | None = None) -> Self:
        """See `Reference.at`."""
        return replace(self, tag=tag, digest=digest)


@dataclass(frozen=True, slots=True)
class ArchiveReference(LayoutReference):
    """A manifest in an OCI image layout packed as one tar file."""

    scheme = "oci-archive"


def parse_reference(text: str) -> Reference:
    """Parse a reference.

    Example:
        >>> parse_reference("localhost:5000/models/digits:v1").version
        'v1'
        >>> str(parse_reference("oci://localhost:5000/models/digits:v1"))
        'localhost:5000/models/digits:v1'

    Raises:
        InvalidReference: the text is no reference; the message names the wrong part.
    """
    refuse_hub(text)
    _refuse_web_address(text)
    rest = without_scheme(text)
    if rest != text:
        return _parse_registry(rest, text)
    scheme, colon, rest = text.partition(":")
    if colon and scheme == "oci":
        return LayoutReference(*_split_layout(rest, text))
    if colon and scheme == "oci-archive":
        return ArchiveReference(*_split_layout(rest, text))
    return _parse_registry(text, text)


def is_repository(name: object) -> bool:
    """Return whether a text is a repository name (distribution-spec, "Pulling manifests")."""
    return isinstance(name, str) and _REPOSITORY.fullmatch(name) is not None


def check_tag(text: str) -> None:
    """Check that a text is a tag.

    Raises:
        InvalidReference: it is none.
    """
    if _TAG.fullmatch(text):
        return
    if text.startswith("sha256:"):
        raise InvalidReference(f"{show(text)} is a digest, not a tag", hint="give a tag, such as v1")
    if "/" in text:
        raise InvalidReference(
            f"{show(text)} is a reference, not a tag",
            hint="give the tag alone; 'ocibridge copy' brings it to another repository",
        )
    _tag(text, text)


def has_scheme(text: str) -> bool:
    """Return whether a text begins with the scheme of a reference."""
    return text.startswith(("oci:", "oci-archive:")) or _scheme(text) in _REGISTRY_SCHEMES


def without_scheme(text: str) -> str:
    """Remove `oci://` or `docker://` from a registry reference; return any other text unchanged.

    Raises:
        InvalidReference: no host follows, as in `oci:///path`.
    """
    scheme = _scheme(text)
    if scheme not in _REGISTRY_SCHEMES:
        return text
    rest = text.partition("://")[2]
    if rest.startswith("/") or _scheme(rest):
        path = rest.lstrip("/")
        layout = scheme == "oci" and path and path != rest
        hint = f"a layout is oci:/{path}" if layout else f"write {_FORMS}"
        raise InvalidReference(f"the reference {show(text)} names no registry host", hint=hint)
    return rest


def is_host(text: str) -> bool:
    """Return whether a text is `HOST[:PORT]`."""
    return _HOST.fullmatch(text) is not None


def has_login(text: str) -> bool:
    """Return whether a text begins with a user, and perhaps a password, before a host: `USER:PASSWORD@HOST/…`."""
    name, at, suffix = text.partition("@")
    return bool(at) and "/" not in name and "/" in suffix


def without_login(text: str) -> str:
    """Return a reference or web address for messages, without a user and password before its host."""
    address = web_address(text)
    if address:
        return address[0]
    return text.partition("@")[2] if has_login(text) else text


def web_address(text: str) -> tuple[str, str] | None:
    """Split a text that begins with `http://` or `https://` into a form for messages and the rest after the scheme.

    Neither contains the user and password before the host.
    """
    scheme = _scheme(text)
    if scheme not in ("http", "https"):
        return None
    host, slash, path = text.partition("://")[2].partition("/")
    rest = host.rpartition("@")[2] + slash + path
    return f"{scheme}://{rest}", rest.rstrip("/")


def refuse_hub(text: str) -> None:
    """Refuse the name of a model of the Hugging Face Hub, and say how it is published today.

    Raises:
        InvalidReference: it is one.
    """
    text = without_login(text)
    hub = _HUB.match(text)
    if hub:
        name = hub["name"] or "ORGANISATION/NAME"
        folder = name.rpartition("/")[2]
        raise InvalidReference(
            f"{show(text)} is on the Hugging Face Hub, which is not read directly",
            hint=f"fetch it with 'hf download {name} --local-dir {folder}', and give the folder {folder}",
        )


def _scheme(text: str) -> str:
    """Return the scheme before `://` in lower case, or an empty string."""
    scheme, separator, _ = text.partition("://")
    return scheme.lower() if separator else ""


def _refuse_web_address(text: str) -> None:
    found = web_address(text)
    if found is None:
        return
    shown, rest = found
    try:
        hint = f"write {_parse_registry(rest, rest)}"
    except InvalidReference:
        hint = f"write {rest}/REPOSITORY[:TAG]" if is_host(rest) else f"write {_FORMS}"
    raise InvalidReference(f"{show(shown)} is a web address, not a reference", hint=hint)


def _split_layout(rest: str, text: str) -> tuple[Path, str | None, str | None]:
    if rest == "-" or rest.startswith("-:"):
        raise InvalidReference(
            f"{show(text)} would be standard input or output, and a layout is not read or written from front to back",
            hint="name a folder or a file (./- where it is called so)",
        )
    if rest.startswith("//"):
        path = rest.lstrip("/")
        raise InvalidReference(
            f"the path in {show(text)} begins with '//'",
            hint=f"write oci-archive:/{path} for an absolute path, oci-archive:{path} for a relative one",
        )
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
    if tag is None and ":" in Path(rest).name:
        # Without its last slash, what follows the colon would be the tag.
        raise InvalidReference(f"the folder of {show(text)} has a ':' in its name", hint="write the tag behind it")
    return Path(rest), tag, digest


def _parse_registry(rest: str, text: str) -> RegistryReference:
    """Parse the part of `text` after its scheme, if it has one."""
    name, at, suffix = rest.partition("@")
    if has_login(rest):
        raise InvalidReference(
            "there is a login before the registry host", hint="leave it out, and run 'ocibridge login HOST'"
        )
    digest = _digest(suffix, text) if at else None
    host, slash, path = name.partition("/")
    if rest != text and not slash and is_host(host) and ("." in host or host.partition(":")[0] == "localhost"):
        raise InvalidReference(f"the reference {show(text)} names no repository", hint=f"write {host}/REPOSITORY[:TAG]")
    if not slash or not ("." in host or ":" in host or host == "localhost"):
        raise InvalidReference(f"the reference {show(text)} names no registry host", hint=_forms(rest, text))
    if not _HOST.fullmatch(host):
        raise InvalidReference(
            f"the registry host {show(host)} in {show(text)} is not valid",
            hint=f"write {_FORMS}",
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


def _forms(rest: str, text: str) -> str:
    """Return a hint for a reference without a host, with a guess from the text after its scheme."""
    scheme = _scheme(text)
    if scheme not in _REGISTRY_SCHEMES or not _REPOSITORY.fullmatch(rest.partition("@")[0].partition(":")[0]):
        return f"write {_FORMS}"
    other = f"oci:{rest} for a layout" if scheme == "oci" else f"docker.io/{rest} for Docker Hub"
    return f"write {scheme}://HOST[:PORT]/{rest}, or {other}"


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
