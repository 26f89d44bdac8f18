# SPDX-License-Identifier: Apache-2.0
"""Two real registries that log what they are asked, and stores in them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from ocibridge.oci import RegistryReference
from ocibridge.stores.registry import Hosts, RegistryStore

from ..registry import registry_server
from .graphs import Logged

MakeStore = Callable[..., RegistryStore]


@pytest.fixture(scope="session")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Logged]:
    """The registry that is copied from."""
    with registry_server(tmp_path_factory.mktemp("here"), access_log=True) as server:
        yield Logged(server)


@pytest.fixture(scope="session")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Logged]:
    """The registry that is copied to."""
    with registry_server(tmp_path_factory.mktemp("there"), access_log=True) as server:
        yield Logged(server)


@pytest.fixture
def open_store() -> Iterator[MakeStore]:
    """Opens a repository, of a name of its own unless one is given."""
    with ExitStack() as stack:
        hosts = stack.enter_context(Hosts())

        def make(server: Logged, name: str | None = None) -> RegistryStore:
            reference = RegistryReference(server.host, name or f"test/{uuid.uuid4().hex[:12]}")
            return stack.enter_context(RegistryStore(reference, hosts=hosts))

        yield make


@pytest.fixture
def source(here: Logged, open_store: MakeStore) -> RegistryStore:
    return open_store(here)


@pytest.fixture
def target(there: Logged, open_store: MakeStore) -> RegistryStore:
    return open_store(there)
