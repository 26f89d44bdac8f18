# SPDX-License-Identifier: Apache-2.0
"""The stores of a run: one for each repository, and one set of connections for all of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

from .. import settings
from ..errors import UsageError
from ..oci import ArchiveReference, Reference, RegistryReference
from ..stores.base import Store
from ..stores.opening import open_store
from ..stores.registry import Hosts, RegistryClient

if TYPE_CHECKING:
    from .jobs.job import Job


class StorePool:
    """Stores by name, opened on first use.

    Args:
        job: Says how each host is reached.

    Example:
        >>> with StorePool(job) as pool:  # doctest: +SKIP
        ...     pool.store(parse_reference("localhost:5000/models/digits")).tags()
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._stack = ExitStack()
        self._hosts = self._stack.enter_context(Hosts())
        self._stores: dict[str, Store] = {}
        self._returned: set[str] = set()
        self._lock = threading.Lock()

    def store(self, reference: Reference, *, create: bool = False) -> Store:
        """The store that a reference names; a layout that is not there is made if `create` is true.

        Raises:
            UsageError: it is an archive, which cannot take what several threads bring.
            StoreError: it cannot be opened.
        """
        if isinstance(reference, ArchiveReference):
            raise UsageError(
                f"{reference.name} is an archive, which a job cannot keep in sync",
                hint="name a layout folder (oci:DIR) in the job, or use 'ocibridge copy' for archives",
            )
        with self._lock:
            store = self._stores.get(reference.name)
            if store is None:
                options = self._job.options_for(reference.host) if isinstance(reference, RegistryReference) else None
                store = self._stores[reference.name] = self._stack.enter_context(
                    open_store(
                        reference, options, hosts=self._hosts, create=create, notes=settings.cache_dir(), shared=True
                    )
                )
            return store

    def repositories(self, host: str) -> Iterator[str]:
        """The names of all repositories of a registry; see `RegistryClient.list_repositories`."""
        client = RegistryClient(host, options=self._job.options_for(host), hosts=self._hosts)
        return client.list_repositories(host)

    def warnings(self) -> list[str]:
        """Warnings of the registries, each once."""
        with self._lock:
            return list(dict.fromkeys(text for store in self._stores.values() for text in store.warnings))

    def news(self) -> list[str]:
        """Warnings that no earlier call returned."""
        found = self.warnings()
        with self._lock:
            new = [text for text in found if text not in self._returned]
            self._returned.update(new)
        return new

    def interrupt(self) -> None:
        """Wake all threads that wait for a store."""
        with self._lock:
            stores = list(self._stores.values())
        self._hosts.interrupt()
        for store in stores:
            store.interrupt()

    def close(self) -> None:
        """Close all stores and connections."""
        self._stack.close()

    def __enter__(self) -> StorePool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
