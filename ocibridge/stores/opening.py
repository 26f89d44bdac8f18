# SPDX-License-Identifier: Apache-2.0
"""Opening the store that a reference names: the one place that knows which kind of reference leads to which store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..oci import ArchiveReference, LayoutReference, Reference, RegistryReference
from .base import Store

if TYPE_CHECKING:
    from typing_extensions import Self

    from .registry import Hosts, RegistryOptions


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """Options for opening a store.

    Attributes:
        registry: How to talk to a registry.
        hosts: What is known of registry hosts, which all stores of a command share; None: this store knows its own.
        create: Whether a layout or archive that does not exist may be made.
        write: Whether one that exists is written to, too.
        notes: Folder for notes that let a later process resume an interrupted upload; None keeps none.
        accept: Media types of manifests that a registry is asked for; empty: all that are known.
        shared: True if other work uses the same connections and must continue when this store is interrupted.
    """

    registry: RegistryOptions | None = None
    hosts: Hosts | None = None
    create: bool = False
    write: bool = False
    notes: Path | None = None
    accept: tuple[str, ...] = ()
    shared: bool = False


@dataclass(frozen=True, slots=True)
class StoreReference(Reference):
    """A manifest in a store that is open, wherever a reference is taken: `StoreReference(store, "v1")`.

    An operation closes the store at its end. One in memory, a layout and an archive can be used again after that, and
    so can a `RegistryStore` that was given `Hosts`.

    Attributes:
        store: The store.
    """

    store: Store
    tag: str | None = None
    digest: str | None = None

    @property
    def name(self) -> str:
        """The name of the store."""
        return self.store.name

    def at(self, tag: str | None = None, digest: str | None = None) -> Self:
        """See `Reference.at`."""
        return replace(self, tag=tag, digest=digest)


def open_store(
    reference: Reference,
    registry: RegistryOptions | None = None,
    *,
    hosts: Hosts | None = None,
    create: bool = False,
    write: bool = False,
    notes: Path | None = None,
    accept: tuple[str, ...] = (),
    shared: bool = False,
) -> Store:
    """The store that a reference names; see `OpenOptions` for the arguments.

    Only the place counts, not tag or digest.

    Raises:
        NotFound: there is no such layout or archive, and `create` is false.
        FormatError: what is there is none.
        StoreError: it cannot be opened.
    """
    return _OPENERS[type(reference)](reference, OpenOptions(registry, hosts, create, write, notes, accept, shared))


# A store's module is imported on first use: the ORAS client, say, is slow to import.


def _open_registry(reference: RegistryReference, options: OpenOptions) -> Store:
    from .registry import RegistryStore

    return RegistryStore(reference, options.registry, options.hosts, options.accept, options.notes, options.shared)


def _open_layout(reference: LayoutReference, options: OpenOptions) -> Store:
    from .layout import LayoutStore

    return LayoutStore(reference.path, create=options.create)


def _open_archive(reference: ArchiveReference, options: OpenOptions) -> Store:
    from .archive import ArchiveStore, open_archive

    if options.create or options.write:
        return ArchiveStore(reference.path, create=options.create)
    return open_archive(reference.path)


_OPENERS: dict[type, Callable[[Any, OpenOptions], Store]] = {
    RegistryReference: _open_registry,
    LayoutReference: _open_layout,
    ArchiveReference: _open_archive,
    StoreReference: lambda reference, _: reference.store,
}
