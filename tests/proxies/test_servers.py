# SPDX-License-Identifier: Apache-2.0
"""The proxies of the tests do what real ones do: httpx gets through each of them, as its environment says."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Iterator

import httpx
import pytest

from ..faults.server import Server
from ..leaks import nothing_left as nothing_left
from ..registry import TLS
from ..stores.registry.fault_server import FaultServer, Reply, Seen
from . import ConnectProxy, HttpProxy, Socks5Proxy

TRUSTED = ssl.create_default_context(cafile=TLS / "ca.pem")
USER = ("proxy user", "geh:eim")
IN_ADDRESS = "proxy%20user:geh%3Aeim@"


@pytest.fixture(autouse=True)
def clean(nothing_left: None) -> None:
    """See `tests.leaks`."""


class Web(Server):
    def reply(self, seen: Seen) -> Reply:
        if not seen.path.startswith("/x"):
            return Reply(404)
        return Reply(201) if seen.method == "PUT" else Reply(200, b"x" * 300_000)


@pytest.fixture
def server() -> Iterator[Web]:
    with Web("registry.test") as running:
        yield running


@pytest.fixture
def tls_server() -> Iterator[FaultServer]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "server.pem", TLS / "server.key")
    with FaultServer("registry.test", context) as running:
        running.on("GET", "/x", Reply(200, b"x" * 300_000))
        yield running


def through(monkeypatch: pytest.MonkeyPatch, **variables: str) -> httpx.Client:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return httpx.Client(verify=TRUSTED, trust_env=True)


def test_requests_are_forwarded_over_one_connection(server: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    with HttpProxy() as proxy, through(monkeypatch, HTTP_PROXY=proxy.url) as client:
        secret = {"Authorization": "Basic x"}
        assert client.put(f"{server.url}/x", content=b"y" * 500_000, headers=secret).status_code == 201
        assert client.put(f"{server.url}/x", content=iter([b"y" * 300_000, b"z"])).status_code == 201
        assert client.get(f"{server.url}/x?a=b").content == b"x" * 300_000
        assert client.head(f"{server.url}/nothing").status_code == 404
    assert [(seen.method, seen.path) for seen in proxy.seen] == [(seen.method, seen.path) for seen in server.seen]
    assert {seen.target for seen in proxy.seen} == {server.host}
    assert len(server.seen[0].body) == 500_000
    assert server.seen[0].authorization == proxy.seen[0].headers["authorization"] == "Basic x"


@pytest.mark.parametrize("tunnel", [False, True])
def test_credentials_of_the_proxy_stop_there(
    tunnel: bool, server: Web, tls_server: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = tls_server if tunnel else server
    with HttpProxy(credentials=USER) as proxy:
        address = f"http://{IN_ADDRESS}{proxy.host}"
        with through(monkeypatch, HTTP_PROXY=address, HTTPS_PROXY=address) as client:
            assert client.get(f"{asked.url}/x").status_code == 200
        assert "proxy-authorization" in proxy.seen[0].headers
        assert not [seen for seen in asked.seen if "proxy-authorization" in seen.headers]
        wrong = address.replace("eim", "eim2")
        with through(monkeypatch, HTTP_PROXY=wrong, HTTPS_PROXY=wrong) as client:
            if tunnel:
                with pytest.raises(httpx.ProxyError, match="407"):
                    client.get(f"{asked.url}/x")
            else:
                assert client.put(f"{asked.url}/x", content=b"y" * 900_000).status_code == 407
        assert len(asked.seen) == 1


@pytest.mark.parametrize("kind", [HttpProxy, ConnectProxy])
def test_tunnels(kind: type[HttpProxy] | type[ConnectProxy], tls_server: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    with kind() as proxy, through(monkeypatch, https_proxy=proxy.url) as client:
        for _ in range(2):
            assert client.get(f"{tls_server.url}/x").content == b"x" * 300_000
        with pytest.raises(httpx.ProxyError, match="502"):
            client.get("https://nowhere.test/")
    assert len(tls_server.seen) == 2


def test_a_proxy_that_speaks_tls_itself(tls_server: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "server.pem", TLS / "server.key")
    with ConnectProxy(tls=context) as proxy:
        with httpx.Client(verify=TRUSTED, proxy=httpx.Proxy(proxy.url, ssl_context=TRUSTED)) as client:
            assert client.get(f"{tls_server.url}/x").content == b"x" * 300_000
        assert proxy.targets == [tls_server.host]


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
@pytest.mark.parametrize("credentials", [None, USER])
def test_socks5(
    scheme: str,
    credentials: tuple[str, str] | None,
    server: Web,
    tls_server: FaultServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Socks5Proxy(credentials) as proxy:
        address = f"{scheme}://{IN_ADDRESS if credentials else ''}{proxy.host}"
        with through(monkeypatch, ALL_PROXY=address) as client:
            assert client.get(f"{server.url}/x").content == b"x" * 300_000
            assert client.get(f"{tls_server.url}/x").content == b"x" * 300_000
        assert proxy.targets == [server.host, tls_server.host]


def test_a_connection_that_ends_early_does_so_through_a_proxy(server: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    server.fault("GET", "/none", lambda seen, true: Reply(0))
    server.fault("GET", "/cut", lambda seen, true: Reply(200, b"x" * 900_000, cut=800_000))
    server.fault("PUT", "/early", refuse=Reply(413, b"too long"))
    with HttpProxy() as proxy, through(monkeypatch, HTTP_PROXY=proxy.url) as client:
        with pytest.raises(httpx.RemoteProtocolError, match="disconnected"):
            client.get(f"{server.url}/none")
        with client.stream("GET", f"{server.url}/cut") as response:
            with pytest.raises(httpx.RemoteProtocolError, match="800000"):
                response.read()
        answer = client.put(f"{server.url}/early", content=b"y" * 3_000_000)
        assert (answer.status_code, answer.content) == (413, b"too long")
        assert client.get("http://nowhere.test/").status_code == 502
    assert {seen.target for seen in proxy.seen} == {server.host, "nowhere.test:80"}


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nfirst"])
def test_a_connection_that_is_reset_is_so_through_a_proxy(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, HttpProxy() as proxy:
        came = threading.Event()

        def serve() -> None:
            end, _ = listener.accept()
            with end:
                end.recv(65536)
                end.sendall(answer)
                came.wait(10)
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

        thread = threading.Thread(target=serve)
        thread.start()
        with through(monkeypatch, HTTP_PROXY=proxy.url) as client:
            with pytest.raises(httpx.ReadError):
                if not answer:
                    came.set()
                with client.stream("GET", f"http://registry.test:{listener.getsockname()[1]}/") as response:
                    for piece in response.iter_raw():
                        assert piece == b"first"
                        came.set()
        thread.join()
