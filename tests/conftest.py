# SPDX-License-Identifier: Apache-2.0
"""What all tests share: a home of their own, and the real registry."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from .registry import RegistryServer, registry_description, registry_server


def pytest_report_header() -> str:
    """Says which registry the run used."""
    try:
        return registry_description()
    except RuntimeError as exc:
        return f"registry: none ({exc})"


@pytest.fixture(autouse=True)
def isolated(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of its own for every test, no credentials or caches but those in it, and no proxies."""
    home = tmp_path_factory.mktemp("home")
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(home))
    for name, folder in {
        "DOCKER_CONFIG": ".docker",
        "XDG_CONFIG_HOME": ".config",
        "XDG_CACHE_HOME": ".cache",
        "XDG_DATA_HOME": ".local/share",
        "XDG_STATE_HOME": ".local/state",
        "XDG_RUNTIME_DIR": "run",
    }.items():
        monkeypatch.setenv(name, str(home / folder))
    for name in ("REGISTRY_AUTH_FILE", "SOURCE_DATE_EPOCH", "OLLAMA_MODELS"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    return home


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryServer]:
    """The real registry, open to everybody; one for each test process."""
    with registry_server(tmp_path_factory.mktemp("registry")) as server:
        yield server


@pytest.fixture(scope="session")
def auth_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryServer]:
    """The real registry, for `tests.registry.USER` alone."""
    with registry_server(tmp_path_factory.mktemp("auth-registry"), auth=True) as server:
        yield server


@pytest.fixture(scope="session")
def tls_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryServer]:
    """The real registry over HTTPS."""
    with registry_server(tmp_path_factory.mktemp("tls-registry"), tls=True) as server:
        yield server


@pytest.fixture
def repository() -> str:
    """The name of a repository that no other test uses."""
    return f"test/{uuid.uuid4().hex[:12]}"
