# SPDX-License-Identifier: Apache-2.0
"""Finding out what a word on the command line means: a path or a reference, and which format or store serves it."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InvalidReference, SourceError, UsageError, reading
from ..formats.format import Address, AnyFormat
from ..formats.options import ReadOptions
from ..formats.registry import address_of, fitting, format_for, format_of, formats
from ..model import Model
from ..oci import (
    Reference,
    RegistryReference,
    has_scheme,
    is_host,
    is_repository,
    parse_reference,
)
from ..oci.reference import has_login, refuse_hub, web_address, without_login
from ..paths import show

if TYPE_CHECKING:
    from ..stores.base import Store
    from ..stores.registry import Hosts, RegistryOptions
    from .options import SourceOptions

_LOOKED_AT = 10_000
"""Names of a folder among which a misspelt one is looked for."""


class Source(NamedTuple):
    """A model on disk, or one that has a name in a store that its format knows.

    Attributes:
        format: Its format.
        place: Where it is.
    """

    format: AnyFormat
    place: Path | Address[Any, Any]

    def __str__(self) -> str:
        return str(self.place)


@contextmanager
def open_source(
    source: Source,
    options: SourceOptions,
    registry: RegistryOptions | None = None,
    target: Reference | None = None,
    hosts: Hosts | None = None,
    *,
    exact: bool = False,
    linked: bool = False,
) -> Iterator[tuple[Model, Store | None]]:
    """Read a source; its files can be opened inside the block.

    Args:
        source: From `source_of` or `subject_of`.
        options: How it is read.
        registry: How to talk to a registry that the model is in, or that `target` is in.
        target: Where the model goes, if it goes anywhere.
        hosts: See `open_store`.
        exact: See `ReadOptions`.
        linked: See `ReadOptions`.

    Returns:
        The model, and the store that its files are blobs of, if it is read from one.

    Raises:
        UsageError: an option is for another format.
        SourceError: it is not there.
        StoreError: the registry does not have it, or cannot be reached.
        FormatError: it breaks the rules of its format.
    """
    found, place = source
    fitted = replace(reading_of(source, options, exact), linked=linked)
    if isinstance(place, Path):
        yield found.read(place, fitted), None
        return
    if place.repository is None:
        yield place.read(fitted), None
        return
    from ..stores.content import BlobContent
    from ..stores.opening import open_store

    reached = registry if target is None else other_side(place.repository, target, registry)
    with open_store(place.repository, reached, hosts=hosts, accept=place.media_types) as store:
        _, manifest = store.fetch_manifest(place.repository.version)
        yield place.read_manifest(manifest, partial(BlobContent, store), fitted), store


def reading_of(source: Source, options: SourceOptions, exact: bool = False) -> ReadOptions:
    """Return the read options of the source's format.

    Raises:
        UsageError: an option is for another format.
    """
    fitted: ReadOptions = fitting(source.format.read_options, options.reading, str(source))
    return replace(fitted, exact=exact, limits=options.limits)


def source_of(source: str | os.PathLike[str]) -> Source:
    """Return the source: a path, or the model that a text with the scheme of a format names.

    Raises:
        InvalidReference: the name breaks the rules of the format.
        SourceError: there is nothing at the path, or nothing that a format recognises.
    """
    address = address_of(source) if isinstance(source, str) else None
    if address:
        return Source(address.format, address)
    if isinstance(source, str):
        _refuse_elsewhere(source)
        if web_address(source):
            shown = show(without_login(source))
            raise InvalidReference(f"{shown} is a web address", hint="fetch it, and name the file or folder")
    path = Path(source)
    try:
        with reading(path):
            path.stat()
    except SourceError as exc:
        exc.hint = _did_you_mean(path) or exc.hint
        raise
    found = format_of(path)
    if not found:
        raise SourceError(
            f"{path} is nothing that can be read as a model",
            hint=f"give one of: {_readable()}",
        )
    return Source(found, path)


def subject_of(subject: str | os.PathLike[str] | Reference) -> Source | Reference:
    """Return a source (see `source_of`; a path exists, or looks like one), or a reference.

    Raises:
        InvalidReference: it is neither.
        SourceError: see `source_of`.
    """
    if isinstance(subject, str | os.PathLike):
        address = address_of(subject) if isinstance(subject, str) else None
        if address:
            return Source(address.format, address)
        found = path_or_reference(os.fspath(subject))
        return source_of(found) if isinstance(found, Path) else found
    return subject


def path_or_reference(text: str) -> Path | Reference:
    """A path where one exists or the text looks like one, else a reference.

    Raises:
        InvalidReference: it is neither.
    """
    if has_scheme(text):
        return parse_reference(text)
    _refuse_elsewhere(text)
    path = Path(text)
    if _exists(path) or text.startswith((".", "/", "~")) or format_for(path):
        return path
    try:
        return parse_reference(text)
    except InvalidReference as exc:
        if web_address(text) or has_login(text):
            raise
        hint = _did_you_mean(path) or exc.hint
        raise InvalidReference(f"{show(text)} is neither a path that exists nor a reference", hint=hint) from None


def stored_reference(source: str | Reference, instead: str | None = None) -> Reference:
    """The reference of what is read from a store.

    Args:
        source: What the user named.
        instead: What to do where that is a path on disk, for the message; by default, to push it.

    Raises:
        UsageError: it is a path.
        InvalidReference: it is no reference.
    """
    if isinstance(source, Reference):
        return source
    try:
        return parse_reference(source)
    except InvalidReference:
        if _exists(Path(source)):
            hint = instead or f"publish it with 'ocibridge push {source} TARGET'"
            raise UsageError(f"{show(source)} is a path, and not a reference", hint=hint) from None
        raise


def _did_you_mean(path: Path) -> str | None:
    """Return a hint that names the entry of the same folder whose name is most similar."""
    try:
        names = [each.name for each in islice(os.scandir(path.parent), _LOOKED_AT)]
    except OSError:
        return None
    near = difflib.get_close_matches(path.name, names, 1)
    return f"did you mean {path.with_name(near[0])}?" if near else None


def is_like_reference(text: str) -> bool:
    """Return whether a text is written as a reference: with a scheme, or with a `HOST:PORT/` that is no folder."""
    host, slash, _ = text.partition("/")
    return (
        has_scheme(text) or has_login(text) or bool(slash and ":" in host and is_host(host) and not _exists(Path(host)))
    )


def _readable() -> str:
    """Name everything that can be read, for messages."""
    paths = [" or ".join(f"x{suffix}" for suffix in each.suffixes) for each in formats() if each.suffixes]
    names = [each.usage for each in formats() if each.usage]
    return ", ".join([*paths, "a folder", *names])


def _refuse_elsewhere(text: str) -> None:
    """Refuse standard input, and models of the Hugging Face Hub."""
    if text == "-":
        raise UsageError(
            "- is standard input, and a model is not read from front to back", hint="write it to a file, and name that"
        )
    refuse_hub(text)


def _exists(path: Path) -> bool:
    """Return whether there is something at `path`; of a name that is too long there is nothing."""
    try:
        return path.exists()
    except OSError:
        return False


def mount_places(target: Reference, repositories: Sequence[str]) -> list[RegistryReference]:
    """The repositories, in the registry of `target`, that blobs may be mounted from.

    Raises:
        UsageError: `target` is in no registry, or a name is no repository.
    """
    found = []
    for name in repositories:
        if not isinstance(target, RegistryReference):
            raise UsageError("blobs are mounted inside a registry only", hint="leave out --mount-from")
        if not is_repository(name):
            raise UsageError(
                f"{show(name)} is no repository to mount from",
                hint=f"write REPOSITORY alone, without tag; it has to be on {target.host}",
            )
        found.append(RegistryReference(target.host, name))
    return found


def other_side(source: Reference, target: Reference, registry: RegistryOptions | None) -> RegistryOptions | None:
    """The options for the source of a copy, where `registry` is meant for the target if that is in a registry.

    Another host than the target's gets no user, password or certificate that was given for the target, and is reached
    as registries are by default.
    """
    if not (registry and isinstance(source, RegistryReference) and isinstance(target, RegistryReference)):
        return registry
    if source.host.lower() == target.host.lower():
        return registry
    from ..stores.registry import RegistryOptions

    return RegistryOptions(
        limits=registry.limits,
        retries=registry.retries,
        timeouts=registry.timeouts,
        bandwidth=registry.bandwidth,
        registry_config=registry.registry_config,
        per_host=registry.per_host,
    )
