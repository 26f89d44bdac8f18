# SPDX-License-Identifier: Apache-2.0
"""Finding out what a word on the command line means: a path or a reference, and which format or store serves it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InvalidReference, SourceError, UsageError, reading
from ..formats.base import Format, ReadOptions, StoredModel, pick
from ..formats.check import CheckSink
from ..model import Model, Role
from ..oci import (
    Reference,
    RegistryReference,
    has_scheme,
    is_repository,
    parse_reference,
)
from ..oci.reference import web_address
from ..paths import show

if TYPE_CHECKING:
    from ..stores.base import Store
    from ..stores.registry import Hosts, RegistryOptions
    from .ollama import OllamaSource
    from .options import SourceOptions

OLLAMA = "ollama:"


def formats() -> tuple[Format, ...]:
    """Every format, the most specific first."""
    from ..formats.carton import CartonFormat
    from ..formats.folder import FolderFormat
    from ..formats.mlsteam import MlsteamFormat

    return (CartonFormat(), MlsteamFormat(), FolderFormat())


def read_model(path: Path, options: ReadOptions) -> Model:
    """Read whatever box is at `path`.

    Raises:
        SourceError: there is nothing, or nothing that a format recognises.
        FormatError: it breaks the rules of its format.
    """
    with reading(path):
        path.stat()
    known = formats()
    found = pick(known, path)
    if not found:
        raise SourceError(
            f"{path} is nothing that can be read as a model",
            hint=f"give one of: {', '.join(each.name for each in known)}",
        )
    return found.read(path, options)


def read_options(options: SourceOptions, *, keep_archive: bool = False) -> ReadOptions:
    """How a source is read, for its format.

    Args:
        options: What the user wants.
        keep_archive: See `ReadOptions`.

    Raises:
        UsageError: no format has such an option.
    """
    given = dict(options.reading)
    if "roles" in given:
        given["roles"] = tuple((glob, Role(role)) for glob, role in given["roles"])
    if "links_hosts" in given:
        given["links_hosts"] = tuple(given["links_hosts"])
    known = ("fetch_links", "links_hosts", "roles", "strip_from")
    for name in given:
        if name not in known:
            raise UsageError(f"no format has an option {name}", hint=f"give one of: {', '.join(known)}")
    return ReadOptions(**given, keep_archive=keep_archive, limits=options.limits)


@contextmanager
def open_source(
    source: Path | OllamaSource,
    options: ReadOptions,
    registry: RegistryOptions | None = None,
    target: Reference | None = None,
    hosts: Hosts | None = None,
) -> Iterator[tuple[Model, Store | None]]:
    """Read a source; its files can be opened inside the block.

    Args:
        source: From `source_of` or `subject_of`.
        options: See `ReadOptions`.
        registry: How to talk to a registry that the model is in, or that `target` is in.
        target: Where the model goes, if it goes anywhere.
        hosts: See `open_store`.

    Returns:
        The model, and the store that its files are blobs of, if it is read from one.

    Raises:
        SourceError: there is nothing, or nothing that a format recognises.
        StoreError: the registry does not have it, or cannot be reached.
        FormatError: it breaks the rules of its format.
    """
    if isinstance(source, Path):
        yield read_model(source, options), None
        return
    from .ollama import open_ollama, source_registry

    with open_ollama(source, options, source_registry(source, target, registry), hosts) as opened:
        yield opened


def checker(stored: StoredModel) -> CheckSink:
    """The sink that checks a stored model against all that its format knows."""
    if stored.format == "ollama":
        from ..formats.ollama import OllamaCheckSink

        return OllamaCheckSink(stored)
    found = next((each for each in formats() if each.name == stored.format), None)
    return found.checker(stored) if found else CheckSink(stored)


def source_of(source: str | os.PathLike[str]) -> Path | OllamaSource:
    """What to read: a path, or the model that a text beginning with `ollama:` names.

    Raises:
        InvalidReference: the name breaks Ollama's rules.
    """
    if not (isinstance(source, str) and source.startswith(OLLAMA)):
        return Path(source)
    from .ollama import parse_ollama

    return parse_ollama(source)


def subject_of(subject: str | os.PathLike[str] | Reference) -> Path | OllamaSource | Reference:
    """What to look at: a source (see `source_of`; a path exists, or looks like one), or a reference.

    Raises:
        InvalidReference: it is neither.
    """
    if isinstance(subject, str):
        return source_of(subject) if subject.startswith(OLLAMA) else path_or_reference(subject)
    return path_or_reference(os.fspath(subject)) if isinstance(subject, os.PathLike) else subject


def path_or_reference(text: str) -> Path | Reference:
    """A path where one exists or the text looks like one, else a reference.

    Raises:
        InvalidReference: it is neither.
    """
    if has_scheme(text):
        return parse_reference(text)
    path = Path(text)
    if path.exists() or text.startswith((".", "/", "~")) or path.suffix == ".carton":
        return path
    try:
        return parse_reference(text)
    except InvalidReference as exc:
        if web_address(text):
            raise
        raise InvalidReference(f"{show(text)} is neither a path that exists nor a reference", hint=exc.hint) from None


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

    return RegistryOptions(limits=registry.limits, retries=registry.retries, registry_config=registry.registry_config)
