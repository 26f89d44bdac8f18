# SPDX-License-Identifier: Apache-2.0
"""What a command says when a proxy is the problem: one sentence with the variable that names it, and no secrets."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ocibridge

from ..proxies import ConnectProxy, HttpProxy, Socks5Proxy
from .conftest import Run
from .moves import OPTIONS, Moves, one_sentence
from .proxying import IN_ADDRESS, USER, environment, know_made_up_names, said
from .quirks import Registry
from .test_proxies import ENCRYPTED, serving

WRONG = IN_ADDRESS.replace("%3A", "%3A%3A")
PAGE = b"HTTP/1.1 %d Sorry\r\nContent-Type: text/html\r\nContent-Length: 33\r\n\r\n<html><b>Proxy is busy</b></html>"


@pytest.fixture
def way() -> None:
    """Every test here has proxies of its own."""


@pytest.fixture
def nobody() -> Iterator[str]:
    """`HOST:PORT` where nobody listens."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{closed.getsockname()[1]}"


@pytest.fixture
def silent() -> Iterator[str]:
    """`HOST:PORT` where connections are taken, and nothing is ever said."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


class Pulls:
    """Pulls that have to fail."""

    def __init__(self, registry: Registry, folder: Path) -> None:
        self.registry = registry
        self.dest = folder / "back.carton"

    @property
    def place(self) -> str:
        return f"{self.registry.host}/models/digits:v1"

    def fail(self, **options: Any) -> str:
        """The one sentence that a pull ends with, for which a command exits with status 1."""
        with pytest.raises(ocibridge.OcibridgeError) as caught:
            ocibridge.pull(self.place, self.dest, registry=replace(OPTIONS, **options))
        assert not isinstance(caught.value, ocibridge.UsageError)
        assert not self.dest.exists()
        text = one_sentence(caught.value)
        assert "<html" not in text
        return text


@pytest.fixture
def pulls(run: Run, tmp_path: Path) -> Pulls:
    registry = Registry("registry.test")
    run(registry)
    return Pulls(registry, tmp_path)


def about_the_proxy(text: str, variable: str) -> None:
    """Whether a message tells that it is the proxy, and where that is set."""
    assert "proxy" in text.replace(variable, "").replace(variable.lower(), "")
    assert variable.lower() in text.lower()
    assert "registry is running" not in text


def for_variable(variable: str) -> dict[str, Any]:
    """Options of a pull for which a variable counts."""
    return ENCRYPTED if variable == "HTTPS_PROXY" else {}


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"])
def test_a_proxy_that_is_not_there(variable: str, pulls: Pulls, nobody: str, monkeypatch: pytest.MonkeyPatch) -> None:
    environment(monkeypatch, **{variable: f"http://{IN_ADDRESS}{nobody}"})
    text = pulls.fail(**for_variable(variable))
    about_the_proxy(text, variable)
    assert nobody in text


def test_a_socks_proxy_that_is_not_there(pulls: Pulls, nobody: str, monkeypatch: pytest.MonkeyPatch) -> None:
    environment(monkeypatch, ALL_PROXY=f"socks5://{IN_ADDRESS}{nobody}")
    text = pulls.fail()
    about_the_proxy(text, "ALL_PROXY")
    assert nobody in text


def test_a_proxy_whose_name_has_no_address(pulls: Pulls, monkeypatch: pytest.MonkeyPatch) -> None:
    environment(monkeypatch, HTTP_PROXY="http://proxy.invalid:3128")
    text = pulls.fail()
    about_the_proxy(text, "HTTP_PROXY")
    assert "proxy.invalid" in text


@pytest.mark.parametrize("credentials", ["", WRONG], ids=["none", "wrong"])
@pytest.mark.parametrize("variable", ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"])
def test_a_proxy_that_wants_other_credentials(
    variable: str, credentials: str, pulls: Pulls, monkeypatch: pytest.MonkeyPatch
) -> None:
    with HttpProxy(credentials=USER) as proxy:
        environment(monkeypatch, **{variable: f"http://{credentials}{proxy.host}"})
        text = pulls.fail(**for_variable(variable))
        assert len(proxy.seen) == 1  # to ask again does not help
    about_the_proxy(text, variable)
    assert "credentials" in text or "password" in text
    assert "ocibridge login" not in text
    assert not pulls.registry.seen


@pytest.mark.parametrize("credentials", ["", WRONG], ids=["none", "wrong"])
def test_a_socks_proxy_that_wants_other_credentials(
    credentials: str, pulls: Pulls, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Socks5Proxy(USER) as proxy:
        environment(monkeypatch, ALL_PROXY=f"socks5://{credentials}{proxy.host}")
        text = pulls.fail()
        assert not proxy.targets
    about_the_proxy(text, "ALL_PROXY")
    assert "credentials" in text or "password" in text


@pytest.mark.parametrize("status", [403, 500, 502, 503])
def test_a_proxy_that_answers_with_a_page_of_its_own(
    status: int, pulls: Pulls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a tunnel nothing tells it from the registry; with one, it is the proxy."""
    with HttpProxy(answer=PAGE % status) as proxy:
        environment(monkeypatch, HTTP_PROXY=proxy.url, HTTPS_PROXY=proxy.url)
        assert str(status) in pulls.fail()
        text = pulls.fail(**ENCRYPTED)
    about_the_proxy(text, "HTTPS_PROXY")
    assert str(status) in text


def test_a_page_in_place_of_what_was_asked_for(pulls: Pulls, monkeypatch: pytest.MonkeyPatch) -> None:
    with HttpProxy(answer=PAGE % 200) as proxy:
        environment(monkeypatch, HTTP_PROXY=proxy.url)
        assert "responded as a web server, not as a registry (status 200)" in pulls.fail()


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "HTTPS_PROXY"])
def test_a_proxy_that_speaks_no_http(variable: str, pulls: Pulls, monkeypatch: pytest.MonkeyPatch) -> None:
    with HttpProxy(answer=b"220 mail.test ESMTP\r\n") as proxy:
        environment(monkeypatch, **{variable: proxy.url})
        about_the_proxy(pulls.fail(**for_variable(variable)), variable)


def test_a_socks_variable_that_leads_to_an_http_proxy(pulls: Pulls, monkeypatch: pytest.MonkeyPatch) -> None:
    with HttpProxy() as proxy:
        environment(monkeypatch, ALL_PROXY=f"socks5://{proxy.host}")
        about_the_proxy(pulls.fail(), "ALL_PROXY")


def test_an_http_variable_that_leads_to_a_socks_proxy(pulls: Pulls, monkeypatch: pytest.MonkeyPatch) -> None:
    with Socks5Proxy() as proxy:
        environment(monkeypatch, HTTP_PROXY=f"http://{proxy.host}")
        about_the_proxy(pulls.fail(), "HTTP_PROXY")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("scheme", ["http", "socks5"])
def test_a_proxy_that_never_says_anything(
    scheme: str, moves: Moves, silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment(monkeypatch, ALL_PROXY=f"{scheme}://{silent}")
    moves.pull_fails("registry.test:5000", "stopped responding|does not respond")


def test_a_host_that_the_proxy_cannot_reach(pulls: Pulls, nobody: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pulls.registry.host = f"nowhere.test:{nobody.rpartition(':')[2]}"
    with HttpProxy() as proxy, ConnectProxy() as other:
        environment(monkeypatch, HTTP_PROXY=proxy.url, HTTPS_PROXY=other.url)
        assert "502" in pulls.fail()
        text = pulls.fail(**ENCRYPTED)
    about_the_proxy(text, "HTTPS_PROXY")
    assert "nowhere.test" in text


def test_a_proxy_with_a_certificate_of_an_unknown_authority(pulls: Pulls, monkeypatch: pytest.MonkeyPatch) -> None:
    with ConnectProxy(tls=serving()) as proxy:
        environment(monkeypatch, HTTPS_PROXY=proxy.url)
        text = pulls.fail(plain_http=False)
    about_the_proxy(text, "HTTPS_PROXY")
    assert "certificate" in text
    assert proxy.host in text


# What cannot be a proxy at all.


@pytest.mark.parametrize("variable", ["ALL_PROXY", "all_proxy", "HTTP_PROXY"])
@pytest.mark.parametrize("scheme", ["socks", "socks4", "socks4a", "ftp"])
def test_schemes_that_are_not_known(variable: str, scheme: str, pulls: Pulls, monkeypatch: pytest.MonkeyPatch) -> None:
    environment(monkeypatch, **{variable: f"{scheme}://{IN_ADDRESS}127.0.0.1:1080/"})
    text = pulls.fail()
    about_the_proxy(text, variable)
    assert f"{scheme}://" in text
    assert f"{variable}=socks5://".lower() in text.lower()


def test_the_step_that_is_named_works(pulls: Pulls, moves: Moves, monkeypatch: pytest.MonkeyPatch) -> None:
    with Socks5Proxy() as proxy:
        environment(monkeypatch, ALL_PROXY=f"socks://{proxy.host}/")
        assert "ALL_PROXY=socks5://" in pulls.fail()
        environment(monkeypatch, ALL_PROXY=f"socks5://{proxy.host}/")
        moves.push(pulls.registry.host)
        assert proxy.targets


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
def test_socks_without_its_extra(scheme: str, pulls: Pulls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "socksio", None)
    environment(monkeypatch, ALL_PROXY=f"{scheme}://{IN_ADDRESS}127.0.0.1:1080")
    text = pulls.fail()
    about_the_proxy(text, "ALL_PROXY")
    assert "pip install 'ocibridge[socks]'" in text


def test_socks_without_its_extra_where_it_is_not_asked(
    pulls: Pulls, moves: Moves, monkeypatch: pytest.MonkeyPatch
) -> None:
    know_made_up_names(monkeypatch)
    monkeypatch.setitem(sys.modules, "socksio", None)
    environment(monkeypatch, ALL_PROXY="socks5://127.0.0.1:1080", NO_PROXY=".test")
    moves.push(pulls.registry.host)


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
@pytest.mark.parametrize(
    "address",
    ["http://[x", "http://127.0.0.1:99999", "http://127.0.0.1:port", "http://", "http://127.0.0.1 :80", "http://\x07"],
)
def test_addresses_that_are_none(variable: str, address: str, pulls: Pulls, monkeypatch: pytest.MonkeyPatch) -> None:
    environment(monkeypatch, **{variable: address.replace("://", f"://{IN_ADDRESS}")})
    about_the_proxy(pulls.fail(), variable)


# What a command says.


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("ALL_PROXY", "socks://127.0.0.1:1080/", "ALL_PROXY=socks5://"),
        ("ALL_PROXY", f"socks5://{IN_ADDRESS}127.0.0.1:1080", "pip install 'ocibridge[socks]'"),
        ("HTTP_PROXY", f"http://{IN_ADDRESS}[x", "HTTP_PROXY"),
        ("HTTP_PROXY", f"http://{WRONG}{{proxy}}", "HTTP_PROXY"),
    ],
    ids=["scheme", "extra", "address", "credentials"],
)
def test_commands_end_with_one_line(
    variable: str,
    value: str,
    words: str,
    pulls: Pulls,
    moves: Moves,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "socksio", None)
    with HttpProxy(credentials=USER) as proxy:
        environment(monkeypatch, **{variable: value.format(proxy=proxy.host)})
        for argv in (["pull", pulls.place, pulls.dest], ["push", moves.model, pulls.place]):
            status, text = said(capsys, *argv, "--plain-http")
            assert status == 1
            assert words in text
