# SPDX-License-Identifier: Apache-2.0
"""Hosts that note what they are asked, and a blob in one of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from ocibridge.content import Reader
from ocibridge.oci import Descriptor, sha256_digest
from ocibridge.settings import Limits
from ocibridge.stores.registry.hosts import Hosts
from ocibridge.stores.registry.options import Manners, RegistryOptions, Retry
from ocibridge.stores.registry.repository import Repository

from .registry.fault_server import FaultServer, Reply

DATA = b"some bytes"
BLOB = Descriptor(media_type="application/octet-stream", digest=sha256_digest(DATA), size=len(DATA))
PATH = f"/v2/r/blobs/{BLOB.digest}"
MANIFEST = "/v2/r/manifests/v1"
WAIT = 60.0

Make = Callable[..., Repository]


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        fill(running)
        yield running


@pytest.fixture
def other() -> Iterator[FaultServer]:
    with FaultServer() as running:
        fill(running)
        yield running


def fill(server: FaultServer) -> None:
    server.on("GET", PATH, Reply(200, DATA))
    server.on("HEAD", PATH, Reply(200, DATA))
    server.on("GET", MANIFEST, Reply(200, b"{}"))
    server.on("POST", "/v2/r/blobs/uploads/", Reply(202, headers={"Location": "/v2/r/blobs/uploads/1"}))
    server.on("PUT", "/v2/r/blobs/uploads/1", Reply(201))


@pytest.fixture
def make(server: FaultServer) -> Iterator[Make]:
    with Hosts() as hosts:

        def made(at: FaultServer = server, limits: Limits | None = None, **manners: Any) -> Repository:
            retry = Retry(attempts=3, first=0.001)
            options = RegistryOptions(retries=retry, manners=Manners(**manners), limits=limits or Limits())
            return Repository(hosts.get(at.host, options), "r")

        yield made


@dataclass(frozen=True)
class Elsewhere:
    """The bytes of a blob, opened while they are sent to another place."""

    source: Repository
    begun: threading.Barrier | None = None
    size: int = len(DATA)

    def open(self, offset: int = 0) -> Reader:
        if self.begun is not None:
            self.begun.wait(WAIT)
        return self.source.open_blob(BLOB, offset)
