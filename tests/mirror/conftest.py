# SPDX-License-Identifier: Apache-2.0
"""Two real registries."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ..registry import RegistryServer, registry_server


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryServer]:
    """Where things are; it logs every request."""
    with registry_server(tmp_path_factory.mktemp("source"), access_log=True) as server:
        yield server


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryServer]:
    """Where they go; it logs every request."""
    with registry_server(tmp_path_factory.mktemp("target"), access_log=True) as server:
        yield server
