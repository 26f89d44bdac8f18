# SPDX-License-Identifier: Apache-2.0
"""A client for one server, with nothing of a registry around it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import httpx
import pytest

from ocibridge.settings import KiB
from ocibridge.stores.registry import RegistryOptions
from ocibridge.stores.registry.transport import Connections, new_client

from ...registry import TLS
from .raw_server import RawServer, Script

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
MUCH = 200 * KiB
"""More than any header may have."""

Serve = Callable[..., RawServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as stack:

        def start(*scripts: Script, tls: bool = False) -> RawServer:
            return stack.enter_context(RawServer(*scripts, tls=tls))

        yield start


@pytest.fixture
def connections() -> Connections:
    return Connections(lambda *_: None, 5.0)


class Asking:
    """A client for one server."""

    def __init__(self, server: RawServer, connections: Connections) -> None:
        url = httpx.URL(server.url)
        self._url = url.join("/x")
        self._client = new_client(RegistryOptions(ca_file=TLS / "ca.pem"), url, True, connections)

    def open(
        self,
        method: str = "GET",
        body: bytes | Iterator[bytes] | None = None,
        seconds: float = 5.0,
        headers: dict[str, str] | None = None,
    ) -> httpx.Response:
        request = httpx.Request(
            method, self._url, headers=headers, content=body, extensions={"timeout": httpx.Timeout(seconds).as_dict()}
        )
        return self._client.send(request, stream=True)

    def __call__(self, method: str = "GET", body: bytes | None = None) -> bytes:
        response = self.open(method, body)
        try:
            return b"".join(response.iter_raw())
        finally:
            response.close()

    def close(self) -> None:
        self._client.close()


@pytest.fixture
def asking(connections: Connections) -> Iterator[Callable[[RawServer], Asking]]:
    with ExitStack() as stack:

        def make(server: RawServer) -> Asking:
            made = Asking(server, connections)
            stack.callback(made.close)
            return made

        yield make


Make = Callable[[RawServer], Asking]
