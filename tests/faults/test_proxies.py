# SPDX-License-Identifier: Apache-2.0
"""A model on its way there and back through proxies that the environment names, and around them."""

from __future__ import annotations

import logging
import ssl
from dataclasses import replace
from pathlib import Path

import pytest

import ocibridge

from ..proxies import ConnectProxy, HttpProxy, Socks5Proxy
from ..registry import TLS, RegistryServer
from ..stores.registry.fault_server import FaultServer, Reply
from .conftest import Run
from .moves import Moves
from .proxying import IN_ADDRESS, USER, environment, know_made_up_names, under_another_name
from .quirks import Redirecting, Registry, Storage
from .tokens import BASIC, SECRET, BasicRegistry, BearerRegistry, TokenServer
from .tokens import USER as ACCOUNT

LOGIN = {"username": ACCOUNT, "password": SECRET}
ENCRYPTED = {"plain_http": False, "ca_file": TLS / "ca.pem"}


@pytest.fixture
def way() -> None:
    """Every test here has proxies of its own."""


@pytest.fixture
def here(moves: Moves, repository: str) -> Moves:
    """A name of its own in a real registry."""
    return replace(moves, name=repository)


def serving() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "server.pem", TLS / "server.key")
    return context


# There and back.


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
def test_http(variable: str, here: Moves, registry: RegistryServer, monkeypatch: pytest.MonkeyPatch) -> None:
    host = under_another_name(registry.host)
    with HttpProxy() as proxy:
        environment(monkeypatch, **{variable: proxy.url})
        here.push(host)
        here.pull(host)
    assert {passed.target for passed in proxy.seen} == {host}
    assert {"GET", "POST", "PUT"} <= {passed.method for passed in proxy.seen}


@pytest.mark.parametrize("kind", [HttpProxy, ConnectProxy], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"])
def test_tunnels(
    variable: str,
    kind: type[HttpProxy] | type[ConnectProxy],
    here: Moves,
    tls_registry: RegistryServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = under_another_name(tls_registry.host)
    with kind() as proxy:
        environment(monkeypatch, **{variable: proxy.url})
        here.push(host, options=ENCRYPTED)
        here.pull(host, options=ENCRYPTED)
        if isinstance(proxy, HttpProxy):
            assert {(passed.method, passed.target) for passed in proxy.seen} == {("CONNECT", host)}
        else:
            assert set(proxy.targets) == {host}


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
@pytest.mark.parametrize("credentials", [None, USER], ids=["open", "credentials"])
def test_socks5(
    scheme: str,
    credentials: tuple[str, str] | None,
    here: Moves,
    registry: RegistryServer,
    tls_registry: RegistryServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain, encrypted = under_another_name(registry.host), under_another_name(tls_registry.host)
    with Socks5Proxy(credentials) as proxy:
        environment(monkeypatch, ALL_PROXY=f"{scheme}://{IN_ADDRESS if credentials else ''}{proxy.host}")
        here.push(plain)
        here.pull(plain)
        here.push(encrypted, options=ENCRYPTED)
        here.pull(encrypted, options=ENCRYPTED)
        assert set(proxy.targets) == {plain, encrypted}


def test_a_proxy_that_is_reached_over_tls(
    here: Moves, tls_registry: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The authority of the registry is one for the proxy too."""
    host = under_another_name(tls_registry.host)
    with ConnectProxy(tls=serving()) as proxy:
        environment(monkeypatch, HTTPS_PROXY=proxy.url)
        here.push(host, options=ENCRYPTED)
        here.pull(host, options=ENCRYPTED)
        assert set(proxy.targets) == {host}


# Credentials.


def test_credentials_of_a_proxy_are_for_the_proxy(
    moves: Moves, run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    registry = BasicRegistry("registry.test")
    registry.storage = storage = Storage(registry, "other.test")
    run(registry)
    run(storage)
    with HttpProxy(credentials=USER) as proxy:
        environment(monkeypatch, HTTP_PROXY=f"http://{IN_ADDRESS}{proxy.host}")
        moves.push(registry.host, options=LOGIN)
        moves.pull(registry.host, options=LOGIN)
    assert all("proxy-authorization" in passed.headers for passed in proxy.seen)
    assert not [seen for seen in [*registry.seen, *storage.seen] if "proxy-authorization" in seen.headers]
    assert {seen.authorization for seen in registry.seen} == {None, BASIC}
    assert {seen.authorization for seen in storage.seen} == {None}
    assert SECRET not in caplog.text


def test_credentials_stay_apart_in_a_tunnel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultServer("registry.test", serving()) as server, HttpProxy(credentials=USER) as proxy:
        server.on("GET", "/v2/r/manifests/v1", Reply(401, headers={"WWW-Authenticate": 'Basic realm="r"'}), Reply(404))
        environment(monkeypatch, HTTPS_PROXY=f"http://{IN_ADDRESS}{proxy.host}")
        options = ocibridge.RegistryOptions(plain_http=False, ca_file=TLS / "ca.pem", username="u", password=SECRET)
        with pytest.raises(ocibridge.NotFound):
            ocibridge.pull(f"{server.host}/r:v1", tmp_path / "x", registry=options)
    assert [seen.authorization is None for seen in server.seen] == [True, False, False]  # the last one lists the tags
    assert not [seen for seen in server.seen if "proxy-authorization" in seen.headers]
    assert all("proxy-authorization" in passed.headers for passed in proxy.seen)
    assert not [passed for passed in proxy.seen if "authorization" in passed.headers]


def test_credentials_of_a_socks_proxy_are_not_logged(
    moves: Moves, run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    registry = Registry("registry.test")
    run(registry)
    with Socks5Proxy(USER) as proxy:
        environment(monkeypatch, ALL_PROXY=f"socks5://{IN_ADDRESS}{proxy.host}")
        moves.push(registry.host)
        moves.pull(registry.host)
        assert set(proxy.targets) == {registry.host}
    assert SECRET not in caplog.text


# Which proxy.

AROUND = [
    *("registry.test", ".test", "test", "*", "registry.test:{port}", "other.test,registry.test"),
    " other.test , registry.test ",
]
THROUGH = ["", "other.test", "gistry.test", "registry.test:1", "registry", "127.0.0.1"]


@pytest.mark.parametrize("variable", ["NO_PROXY", "no_proxy"])
@pytest.mark.parametrize(
    ("value", "around"), [*((value, True) for value in AROUND), *((value, False) for value in THROUGH)]
)
def test_no_proxy(
    variable: str, value: str, around: bool, moves: Moves, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    know_made_up_names(monkeypatch)
    registry = Registry("registry.test")
    run(registry)
    with HttpProxy() as proxy:
        port = registry.host.rpartition(":")[2]
        environment(monkeypatch, HTTP_PROXY=proxy.url, **{variable: value.format(port=port)})
        moves.push(registry.host)
        assert len(proxy.seen) == (0 if around else len(registry.seen))


@pytest.mark.parametrize(
    ("skipped", "asked"),
    [("", {"registry.test", "other.test"}), ("registry.test", {"other.test"}), ("other.test", {"registry.test"})],
)
def test_a_redirect_goes_through_the_proxy_of_the_host_it_leads_to(
    skipped: str, asked: set[str], moves: Moves, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    know_made_up_names(monkeypatch)
    registry = Redirecting("registry.test")
    registry.storage = storage = Storage(registry, "other.test")
    run(registry)
    run(storage)
    with HttpProxy() as proxy:
        environment(monkeypatch, HTTP_PROXY=proxy.url, NO_PROXY=skipped)
        moves.push(registry.host)
        moves.pull(registry.host)
        assert proxy.targets == asked
    assert storage.requests("GET")


@pytest.mark.parametrize(("skipped", "asked"), [("registry.test", {"other.test"}), ("other.test", {"registry.test"})])
def test_a_token_server_has_a_proxy_of_its_own(
    skipped: str, asked: set[str], moves: Moves, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    know_made_up_names(monkeypatch)
    registry, tokens = BearerRegistry("registry.test"), TokenServer("other.test")
    registry.realm = f"{tokens.url}/token"
    run(registry)
    run(tokens)
    with HttpProxy() as proxy:
        environment(monkeypatch, HTTP_PROXY=proxy.url, NO_PROXY=skipped)
        moves.push(registry.host, options=LOGIN)
        assert proxy.targets == asked
    assert {seen.authorization for seen in tokens.seen} == {BASIC}


@pytest.mark.parametrize(
    "variables",
    [
        {"http_proxy": "{good}", "HTTP_PROXY": "{bad}"},
        {"HTTP_PROXY": "{good}", "ALL_PROXY": "{bad}"},
        {"HTTP_PROXY": "{good}", "HTTPS_PROXY": "{bad}"},
        {"HTTP_PROXY": "{host}"},
        # What GNOME sets, of which the last is for nothing that we send.
        {"http_proxy": "{good}/", "https_proxy": "{good}/", "all_proxy": "socks://127.0.0.1:1/"},
    ],
    ids=["lower-case", "all", "https", "no-scheme", "gnome"],
)
def test_the_variable_that_counts(
    variables: dict[str, str], moves: Moves, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = Registry("registry.test")
    run(registry)
    with HttpProxy() as proxy:
        named = {"good": proxy.url, "host": proxy.host, "bad": "http://127.0.0.1:1"}
        environment(monkeypatch, **{name: value.format(**named) for name, value in variables.items()})
        moves.push(registry.host)
        assert len(proxy.seen) == len(registry.seen)


@pytest.mark.parametrize(
    "variables",
    [
        {"http_proxy": "", "HTTP_PROXY": "http://127.0.0.1:1"},
        {"HTTPS_PROXY": "http://127.0.0.1:1"},
        {"ALL_PROXY": "socks://127.0.0.1:1", "NO_PROXY": "registry.test"},
    ],
    ids=["emptied", "https", "skipped"],
)
def test_variables_that_do_not_count(
    variables: dict[str, str], moves: Moves, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    know_made_up_names(monkeypatch)
    registry = Registry("registry.test")
    run(registry)
    environment(monkeypatch, **variables)
    moves.push(registry.host)
    moves.pull(registry.host)
