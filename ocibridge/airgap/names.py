# SPDX-License-Identifier: Apache-2.0
"""Names of what is in a bundle, and where they lead on the other side."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..errors import InvalidReference, UsageError
from ..oci import Reference, RegistryReference, has_scheme, parse_reference, without_scheme
from ..oci.reference import web_address
from ..paths import show


@dataclass(frozen=True, slots=True)
class Name:
    """The name of a manifest in a bundle.

    Attributes:
        text: As it stands there: `HOST/REPOSITORY:TAG`, `HOST/REPOSITORY@DIGEST`, or a tag alone.
        repository: `HOST/REPOSITORY`, or empty.
        tag: The tag; None where it is named by digest.
    """

    text: str
    repository: str
    tag: str | None

    @property
    def path(self) -> str:
        """The repository without its host."""
        return self.repository.partition("/")[2]


def name_of(reference: Reference) -> Name:
    """What a reference is called in a bundle: those of layouts by their tag alone."""
    if isinstance(reference, RegistryReference):
        tag = reference.tag or (None if reference.digest else reference.version)
        text = f"{reference.name}@{reference.digest}" if tag is None else f"{reference.name}:{tag}"
        return Name(text, reference.name, tag)
    tag = reference.tag or (None if reference.digest else reference.version)
    if tag is None:
        raise UsageError(f"{reference} has no name that a bundle could give it", hint="name it by a tag: oci:DIR:TAG")
    return Name(tag, "", tag)


def parse_name(text: str) -> Name | None:
    """The name that stands in a bundle or an inventory; None where it is none that we would restore."""
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
    # As it is written there, and not with what is added to it for Docker Hub.
    repository = text.partition("@")[0] if parsed.digest else text.removesuffix(f":{parsed.tag}")
    return Name(text, repository, None if parsed.digest else parsed.version)


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a bundle is restored.

    Attributes:
        text: `HOST[/PREFIX]` or `oci:DIR`.
        host: The registry; empty for a layout.
        prefix: What comes before each repository, or empty.
        layout: The folder of a layout, in which everything keeps its name.
        strip: Leading parts of the repositories that are left out.
    """

    text: str
    host: str
    prefix: str
    layout: Path | None
    strip: str = ""

    def repository(self, name: Name) -> str:
        """The repository that `name` goes to, as `HOST/REPOSITORY`; in a layout it keeps its own.

        Raises:
            UsageError: there is none.
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
    """Parse `HOST[/PREFIX]`, which `oci://` or `docker://` may stand before, or `oci:DIR`.

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
            if layout and not strip:
                return Destination(text, "", "", parsed.path)
    except InvalidReference:
        pass
    raise UsageError(
        f"{show(text)} is no place to restore to",
        hint="leave out --strip for a layout"
        if strip and layout
        else "write HOST[:PORT][/PREFIX] or oci:DIR, without a tag",
    )
