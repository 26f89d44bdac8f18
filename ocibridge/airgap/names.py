# SPDX-License-Identifier: Apache-2.0
"""Names of what is in a bundle, and where they lead on the other side."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..errors import InvalidReference, UsageError
from ..oci import LayoutReference, Reference, RegistryReference, parse_reference
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
    """The name that stands in a bundle or a lock; None where it is none that we would restore."""
    try:
        parsed = parse_reference(text if "/" in text else f"localhost/x:{text}")
    except InvalidReference:
        return None
    if not isinstance(parsed, RegistryReference):
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
        text: As it was given.
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
    """Parse `HOST[/PREFIX]` or `oci:DIR`.

    Raises:
        UsageError: it is neither.
    """
    strip = strip.strip("/")
    try:
        if text.startswith("oci:"):
            reference = parse_reference(text)
            if isinstance(reference, LayoutReference) and not (reference.tag or reference.digest or strip):
                return Destination(text, "", "", reference.path)
        parsed = parse_reference(text.rstrip("/") + "/x")
        if isinstance(parsed, RegistryReference) and not (parsed.tag or parsed.digest):
            host, _, prefix = text.rstrip("/").partition("/")
            return Destination(text, host, prefix, None, strip)
    except InvalidReference:
        pass
    hint = "leave out --strip for a layout" if strip and text.startswith("oci:") else None
    raise UsageError(
        f"{show(text)} is no place to restore to",
        hint=hint or "write HOST[:PORT][/PREFIX] or oci:DIR, without a tag",
    )
