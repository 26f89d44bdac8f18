# SPDX-License-Identifier: Apache-2.0
"""Hosts that note what they are asked, and a blob in one of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from ocibridge.io.readers import Reader
from ocibridge.oci import Descriptor, RegistryReference, sha256_digest
from ocibridge.settings import Limits
from ocibridge.stores.registry import Hosts, RateLimits, RegistryOptions, RegistryStore, Retry

from .registry.fault_server import FaultServer, Reply

DATA = b"some bytes"
BLOB = Descriptor(media_type="application/octet-stream", digest=sha256_digest(DATA), size=len(DATA))
PATH = f"/v2/r/blobs/{BLOB.digest}"
MANIFEST = "/v2/r/manifests/v1"
WAIT = 60.0

Make = Callable[..., RegistryStore]


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


def store_for(host: str, options: RegistryOptions, hosts: Hosts) -> RegistryStore:
    return RegistryStore(RegistryReference(host, "r"), options, hosts)


def fill(server: FaultServer) -> None:
    server.on("GET", PATH, Reply(200, DATA))
    server.on("HEAD", PATH, Reply(200, DATA))
    server.on("GET", MANIFEST, Reply(200, b"{}"))
    server.on("POST", "/v2/r/blobs/uploads/", Reply(202, headers={"Location": "/v2/r/blobs/uploads/1"}))
    server.on("PUT", "/v2/r/blobs/uploads/1", Reply(201))


@pytest.fixture
def make(server: FaultServer) -> Iterator[Make]:
    with Hosts() as hosts:

        def made(at: FaultServer = server, limits: Limits | None = None, **rates: Any) -> RegistryStore:
            retry = Retry(attempts=3, first=0.001)
            options = RegistryOptions(retries=retry, rate_limits=RateLimits(**rates), limits=limits or Limits())
            return store_for(at.host, options, hosts)

        yield made


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as running:
        yield running


def all_of(futures: list[Future[Any]]) -> None:
    for each in futures:
        each.result(timeout=WAIT)


@dataclass(frozen=True)
class Elsewhere:
    """The bytes of a blob, opened while they are sent to another place."""

    source: RegistryStore
    begun: threading.Barrier | None = None
    size: int = len(DATA)

    def open(self, offset: int = 0) -> Reader:
        if self.begun is not None:
            self.begun.wait(WAIT)
        return self.source.resume_blob(BLOB, offset)
