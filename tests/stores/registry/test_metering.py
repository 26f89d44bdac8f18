# SPDX-License-Identifier: Apache-2.0
"""Bandwidth, retries and timeouts as options, options by host, and the log of requests."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from ocibridge import PullOptions, RegistryOptions, Retry, Timeouts, pull, push
from ocibridge.errors import NetworkError, UsageError
from ocibridge.io.metering import MeteredTransport, shown
from ocibridge.oci import parse_reference
from ocibridge.options import fields_of
from ocibridge.stores.opening import open_store
from ocibridge.stores.registry.hosts import Hosts

from ...registry import RegistryServer

CARTON = Path(__file__).parents[2] / "fixtures" / "digits.carton"


@pytest.mark.parametrize("way", ["up", "down"])
def test_a_bandwidth_holds_in_both_directions(
    registry: RegistryServer, repository: str, tmp_path: Path, way: str
) -> None:
    slow = RegistryOptions(bandwidth=48 << 10)
    target = f"{registry.host}/{repository}:v1"
    started = time.monotonic()
    push(CARTON, target, registry=slow if way == "up" else None)
    if way == "down":
        started = time.monotonic()
        pull(target, tmp_path / "x.carton", PullOptions(concurrency=8), registry=slow)
    # 70.5 KiB of layers, of which the first second is free.
    assert time.monotonic() - started > 0.4


def test_who_waits_for_the_bandwidth_is_woken() -> None:
    with Hosts() as hosts:
        host = hosts.get("registry.example", RegistryOptions(bandwidth=16 << 10))
        timer = threading.Timer(0.1, hosts.interrupt)
        timer.start()
        with pytest.raises(NetworkError, match="closed by this program"):
            host._pass(1 << 30)
        timer.join()


def test_less_than_registries_wait_for_is_refused() -> None:
    with pytest.raises(UsageError, match="give at least 16KiB"):
        RegistryOptions(bandwidth=1000)


def _parsed(name: str, text: str) -> object:
    option = next(each for each in fields_of(RegistryOptions) if each.name == name)
    assert option.parse is not None
    return option.parse(text)


def test_flags_become_retries_and_timeouts() -> None:
    assert _parsed("retries", "0") == Retry(attempts=1, unreachable=1)
    assert _parsed("retries", "9") == Retry(attempts=10)
    assert _parsed("timeouts", "5") == Timeouts(connect=5, read=5, write=5, commit=25)
    assert _parsed("timeouts", "120") == Timeouts(read=120, write=120, commit=600)
    for name, text in (("retries", "-1"), ("retries", "x"), ("timeouts", "0"), ("timeouts", "nan"), ("timeouts", "x")):
        with pytest.raises(ValueError, match=f"'{text}' is no "):
            _parsed(name, text)


def test_no_password_of_a_proxy_in_a_flag() -> None:
    with pytest.raises(ValueError, match="HTTPS_PROXY"):
        _parsed("proxy", "http://me:secret@proxy:8080")


def test_options_of_a_host_stand_in_for_defaults() -> None:
    own = RegistryOptions(insecure=True, bandwidth=1 << 20, retries=Retry(attempts=9))
    options = RegistryOptions(bandwidth=1 << 25, username="me", per_host=(("registry.example:5000", own),))
    found = options.for_host("Registry.example:5000")
    assert found == replace(own, bandwidth=1 << 25, username="me")
    assert options.for_host("other.example") == options
    with Hosts() as hosts:
        assert hosts.get("registry.example:5000", options).options == found


def test_a_proxy_of_the_options_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    options = RegistryOptions(proxy="http://127.0.0.1:1", retries=Retry(attempts=1))
    with open_store(parse_reference("registry.example/a:v1"), options) as store:
        with pytest.raises(NetworkError, match=r"127\.0\.0\.1:1 \(--proxy\)"):
            store.resolve("v1")


def test_bodies_are_counted_and_failures_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Inner(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            assert isinstance(request.stream, httpx.SyncByteStream)
            if not b"".join(request.stream):
                raise httpx.ConnectError("no")
            return httpx.Response(201, stream=httpx.ByteStream(b"12345"))

    passed: list[int] = []
    with caplog.at_level(logging.DEBUG, "ocibridge.http"):
        transport = MeteredTransport(Inner(), passed.append, 1 << 20)
        with httpx.Client(transport=transport) as client:
            assert client.put("https://a.example/x?digest=sha256:1", content=b"abc").content == b"12345"
            with pytest.raises(httpx.ConnectError):
                client.get("https://a.example/y")
    assert passed == [3, 5]
    put, get = (record.getMessage().rpartition(", ")[0] for record in caplog.records)
    assert put == "PUT https://a.example/x?digest=sha256:1 201, sent 3 B, received 5 B"
    assert get == "GET https://a.example/y failed (ConnectError)"


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("https://me:secret@a.example/x#secret", "https://a.example/x"),
        ("https://a.example/x?sig=a&sig=b&n=5", "https://a.example/x?sig=…&sig=…&n=5"),
    ],
)
def test_addresses_without_secrets(url: str, text: str) -> None:
    assert shown(httpx.URL(url)) == text
