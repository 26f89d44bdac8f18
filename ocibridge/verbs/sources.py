# SPDX-License-Identifier: Apache-2.0
"""Finding out what a word on the command line means: a path or a reference, and which format or store serves it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InvalidReference, SourceError, reading
from ..formats.base import Format, ReadOptions, StoredModel, pick
from ..formats.check import CheckSink
from ..model import Model
from ..oci import ArchiveReference, LayoutReference, Reference, RegistryReference, parse_reference
from ..paths import show
from ..stores.base import Store

if TYPE_CHECKING:
    from ..stores.registry import RegistryOptions


def formats() -> tuple[Format, ...]:
    """Every format, the most specific first."""
    from ..formats.carton import CartonFormat
    from ..formats.tree import FolderFormat

    return (CartonFormat(), FolderFormat())


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


def checker(stored: StoredModel) -> CheckSink:
    """The sink that checks a stored model against all that its format knows."""
    found = next((each for each in formats() if each.name == stored.format), None)
    return found.checker(stored) if found else CheckSink(stored)


def path_or_reference(text: str) -> Path | Reference:
    """A path where one exists or the text looks like one, else a reference.

    Raises:
        InvalidReference: it is neither.
    """
    if text.startswith(("oci:", "oci-archive:")):
        return parse_reference(text)
    path = Path(text)
    if path.exists() or text.startswith((".", "/", "~")) or path.suffix == ".carton":
        return path
    try:
        return parse_reference(text)
    except InvalidReference as exc:
        raise InvalidReference(f"{show(text)} is neither a path that exists nor a reference", hint=exc.hint) from None


def open_store(reference: Reference, registry: RegistryOptions | None = None, *, create: bool = False) -> Store:
    """The store that a reference names.

    Args:
        reference: Only the place counts, not tag or digest.
        registry: How to talk to a registry.
        create: Whether a layout that does not exist may be made.
    """
    if isinstance(reference, ArchiveReference):
        from ..stores.archive import ArchiveStore

        return ArchiveStore(reference.path, create=create)
    if isinstance(reference, LayoutReference):
        from ..stores.layout import LayoutStore

        return LayoutStore(reference.path, create=create)
    assert isinstance(reference, RegistryReference)
    from ..stores.registry import RegistryOptions, RegistryStore

    return RegistryStore(reference, registry or RegistryOptions())
