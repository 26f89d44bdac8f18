# SPDX-License-Identifier: Apache-2.0
"""Names of references in an archive, and the references that they become on the other side."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..errors import InvalidReference, UsageError
from ..oci import LayoutReference, Reference, RegistryReference, has_scheme, parse_reference, without_scheme
from ..oci.reference import web_address
from ..paths import show


@dataclass(frozen=True, slots=True)
class Name:
    """The name of a manifest in an archive.

    Attributes:
        text: The complete name: `HOST/REPOSITORY:TAG`, `HOST/REPOSITORY@DIGEST`, or a tag alone.
        repository: `HOST/REPOSITORY`, or empty.
        tag: The tag; None for a name with a digest.
    """

    text: str
    repository: str
    tag: str | None

    @property
    def path(self) -> str:
        """The repository without its host."""
        return self.repository.partition("/")[2]


def name_of(reference: Reference) -> Name:
    """Return the name of a reference in an archive; for a layout, this is its tag."""
    if isinstance(reference, RegistryReference):
        tag = reference.tag or (None if reference.digest else reference.version)
        text = f"{reference.name}@{reference.digest}" if tag is None else f"{reference.name}:{tag}"
        return Name(text, reference.name, tag)
    tag = reference.tag or (None if reference.digest else reference.version)
    if tag is None:
        raise UsageError(f"{reference} has no name for the archive", hint="name it by a tag: oci:DIR:TAG")
    return Name(tag, "", tag)


def parse_name(text: str) -> Name | None:
    """Parse a name of an archive or inventory; None if it is no name that can be restored."""
    try:
        parsed = parse_reference(text if "/" in text else f"localhost/x:{text}")
    except InvalidReference:
        return None
    if not isinstance(parsed, RegistryReference) or has_scheme(text):
        return None
    if "/" not in text:
        return Name(text, "", text) if parsed.tag == text and parsed.digest is None else None
    if parsed.tag and parsed.digest:
        return None
    # As written, without what `parse_reference` adds for Docker Hub.
    repository = text.partition("@")[0] if parsed.digest else text.removesuffix(f":{parsed.tag}")
    return Name(text, repository, None if parsed.digest else parsed.version)


@dataclass(frozen=True, slots=True)
class Destination:
    """The target of a restore.

    Attributes:
        text: `HOST[/PREFIX]` or `oci:DIR`.
        host: The registry; empty for a layout.
        prefix: Prefix of each repository, or empty.
        layout: The folder of a layout, in which all names are kept; or None.
        strip: Leading parts of repository names that are removed.
    """

    text: str
    host: str
    prefix: str
    layout: Path | None
    strip: str = ""

    def repository(self, name: Name) -> str:
        """Return the repository for a name, as `HOST/REPOSITORY`; a layout keeps that of the name.

        Raises:
            UsageError: the name has no repository there.
        """
        path = name.path
        if self.layout is not None:
            return name.repository
        if self.strip and name.repository:
            if path != self.strip and not path.startswith(self.strip + "/"):
                raise UsageError(
                    f"{show(name.text)} is in no repository below {show(self.strip)}",
                    hint="leave out --strip, or restore only those that are, by naming them",
                )
            path = path[len(self.strip) :].strip("/")
        whole = "/".join(part for part in (self.host, self.prefix, path) if part)
        if whole == self.host:
            raise UsageError(
                f"{show(name.text)} names no repository in {self.host}", hint="give one: --to HOST/REPOSITORY"
            )
        return whole


def parse_destination(text: str, strip: str = "") -> Destination:
    """Parse `HOST[/PREFIX]`, with or without `oci://` or `docker://`, or `oci:DIR`.

    Raises:
        UsageError: it is neither.
    """
    strip = strip.strip("/")
    if address := web_address(text):
        raise UsageError(f"{show(address[0])} is a web address, not a place to restore to", hint=f"write {address[1]}")
    place = without_scheme(text)
    layout = place == text and text.startswith("oci:")
    try:
        parsed = parse_reference(text if layout else place.rstrip("/") + "/x")
        if not (parsed.tag or parsed.digest):
            if isinstance(parsed, RegistryReference):
                host, _, prefix = place.rstrip("/").partition("/")
                return Destination(place, host, prefix, None, strip)
            if isinstance(parsed, LayoutReference) and layout and not strip:
                return Destination(text, "", "", parsed.path)
    except InvalidReference:
        pass
    raise UsageError(
        f"{show(text)} is no place to restore to",
        hint="leave out --strip for a layout"
        if strip and layout
        else "write HOST[:PORT][/PREFIX] or oci:DIR, without a tag",
    )
