# SPDX-License-Identifier: Apache-2.0
"""Servers that misbehave, and a store that talks to one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from ocibridge.oci import RegistryReference
from ocibridge.stores.registry import Hosts, RegistryOptions, RegistryStore, Retry

from .fault_server import FaultServer

MakeStore = Callable[..., RegistryStore]


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


@pytest.fixture
def other() -> Iterator[FaultServer]:
    """A second server, under another host name."""
    with FaultServer("localhost") as running:
        yield running


@pytest.fixture
def make_store(server: FaultServer) -> Iterator[MakeStore]:
    with ExitStack() as stack:
        hosts = stack.enter_context(Hosts())

        def make(repository: str = "r", host: str | None = None, **options: Any) -> RegistryStore:
            options.setdefault("retries", Retry(attempts=3, first=0.01))
            reference = RegistryReference(host or server.host, repository)
            store = RegistryStore(reference, RegistryOptions(**options), hosts)
            return stack.enter_context(store)

        yield make


@pytest.fixture
def store(make_store: MakeStore) -> RegistryStore:
    return make_store()
