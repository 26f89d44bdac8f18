# SPDX-License-Identifier: Apache-2.0
"""Which proxy the environment names for an address."""

from __future__ import annotations

import httpx
import pytest

from ocibridge.errors import NetworkError
from ocibridge.stores.registry.proxies import proxy_for

NAMES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
WEB = "https://registry.example/v2/"
PLAIN = "http://registry.example:5000/v2/"


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.parametrize(
    ("environment", "address", "proxy"),
    [
        ({}, WEB, None),
        ({"HTTPS_PROXY": "http://p:1"}, WEB, "the proxy p:1 (HTTPS_PROXY)"),
        ({"https_proxy": "http://p:1"}, WEB, "the proxy p:1 (https_proxy)"),
        ({"HTTPS_PROXY": "p:1"}, WEB, "the proxy p:1 (HTTPS_PROXY)"),
        ({"HTTPS_PROXY": "http://u:geheim@p:1"}, WEB, "the proxy p:1 (HTTPS_PROXY)"),
        ({"HTTPS_PROXY": "http://p:1"}, PLAIN, None),
        ({"HTTP_PROXY": "http://p:1"}, PLAIN, "the proxy p:1 (HTTP_PROXY)"),
        ({"HTTP_PROXY": "http://p:1"}, WEB, None),
        ({"ALL_PROXY": "http://p:1"}, WEB, "the proxy p:1 (ALL_PROXY)"),
        ({"ALL_PROXY": "http://p:1"}, PLAIN, "the proxy p:1 (ALL_PROXY)"),
        ({"ALL_PROXY": "http://p:1", "HTTPS_PROXY": "http://q:2"}, WEB, "the proxy q:2 (HTTPS_PROXY)"),
        ({"HTTPS_PROXY": ""}, WEB, None),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "registry.example"}, WEB, None),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": ".example,other"}, WEB, None),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*"}, WEB, None),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "other.example"}, WEB, "the proxy p:1 (HTTPS_PROXY)"),
        ({"HTTP_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8"}, "http://10.1.2.3/v2/", None),
    ],
)
def test_the_environment_decides(
    environment: dict[str, str], address: str, proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = proxy_for(httpx.URL(address))
    assert (None if found is None else str(found)) == proxy


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "127.0.0.1", "127.8.8.8", "[::1]", "0.0.0.0"])
def test_this_machine_is_never_asked_through_a_proxy(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES[:3]:
        monkeypatch.setenv(name.upper(), "http://p:1")
    assert proxy_for(httpx.URL(f"http://{host}:5000/v2/")) is None
    assert proxy_for(httpx.URL(f"https://{host}:5000/v2/")) is None
    assert proxy_for(httpx.URL(PLAIN)) is not None


@pytest.mark.parametrize("value", ["ftp://p:1", "http://", "http://u:geheim@p:many", "socks4://u:geheim@p:1"])
def test_a_proxy_that_cannot_be_used_is_an_error(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", value)
    with pytest.raises(NetworkError, match="HTTPS_PROXY") as caught:
        proxy_for(httpx.URL(WEB))
    assert caught.value.hint
    assert "geheim" not in str(caught.value)
