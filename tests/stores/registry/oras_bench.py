# SPDX-License-Identifier: Apache-2.0
"""A class of oras-py, or ours in its place, and a repository for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import oras.client
import oras.defaults
import pytest
import requests

from ocibridge.stores.registry import RegistryClient

from ...registry import RegistryServer, registry_server

CLIENTS: dict[str, Any] = {"stock": oras.client.OrasClient, "ours": RegistryClient}
ABSENT = "sha256:" + "0" * 64
DATA = b"0123456789" * 350


class Bench:
    """One of the two classes, and a repository for it.

    Attributes:
        kind: `stock` or `ours`.
        base: The class.
        target: The tag v1 of the repository.
    """

    def __init__(self, kind: str, server: RegistryServer, repository: str) -> None:
        self.kind = kind
        self.base = CLIENTS[kind]
        self.server = server
        self.host = server.host
        self.repository = f"{server.host}/{repository}"
        self.target = f"{self.repository}:v1"
        self._made: list[Any] = []

    def client(self, base: Any = None, **options: Any) -> Any:
        made = (base or self.base)(**options)
        self._made.append(made)
        return made

    def close(self) -> None:
        for each in self._made:
            each.close() if isinstance(each, RegistryClient) else each.session.close()

    def digest(self, version: str) -> str:
        """What the registry has under a tag."""
        url = f"http://{self.host}/v2/{self.repository.partition('/')[2]}/manifests/{version}"
        accept = {"Accept": oras.defaults.default_manifest_media_type}
        with requests.Session() as session:
            found = session.head(url, headers=accept, timeout=20).headers["Docker-Content-Digest"]
        return str(found)


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryServer]:
    with registry_server(tmp_path_factory.mktemp("logged"), access_log=True) as server:
        yield server


@pytest.fixture(autouse=True)
def artifact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a file: oras-py takes files of the working folder only, unless told otherwise."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "artifact.txt").write_bytes(DATA)
    return folder / "artifact.txt"


@pytest.fixture(params=CLIENTS)
def bench(request: pytest.FixtureRequest, logged: RegistryServer, repository: str) -> Iterator[Bench]:
    made = Bench(request.param, logged, repository)
    yield made
    made.close()


@pytest.fixture
def ours(logged: RegistryServer, repository: str) -> Iterator[Bench]:
    made = Bench("ours", logged, repository)
    yield made
    made.close()
