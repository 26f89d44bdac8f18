# SPDX-License-Identifier: Apache-2.0
"""What is known of a host: its warnings are kept for the user, bounded and harmless; its addresses are its own."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, cast

import httpx
import pytest

from ocibridge.errors import StoreError, UsageError
from ocibridge.stores.registry import Hosts, RegistryOptions
from ocibridge.stores.registry.host import _MAX_WARNING, _MAX_WARNINGS, Host, origin_of
from ocibridge.stores.registry.transport import _Stream

from .conftest import MakeStore
from .fault_server import FaultServer, Reply

MANIFEST = b'{"schemaVersion":2}'


@pytest.fixture
def host(make_store: MakeStore) -> Host:
    return make_store().host


def test_only_what_the_registry_itself_says_counts(host: Host) -> None:
    for value in (
        '299 - "This repository moves on Monday."',
        '299 - "a \\"b\\"", 299 - "c"',
        '199 - "stale"',
        '299 proxy "not the registry"',
        '299 - "open',
        '299 - ""',
        'x299 - "no"',
        "",
    ):
        host.responded({"warning": value})
    assert host.warnings == ["This repository moves on Monday.", 'a "b"', "c"]


def test_warnings_are_bounded_printable_and_said_once(host: Host) -> None:
    for number in range(100):
        host.responded({"warning": ", ".join([f'299 - "{number % 50}\x1b[31m{"x" * 999}"'] * 2)})
    assert len(host.warnings) == _MAX_WARNINGS
    assert all(len(text) <= _MAX_WARNING and text.isprintable() for text in host.warnings)
    assert len(set(host.warnings)) == _MAX_WARNINGS


def test_a_host_keeps_its_own_warnings_without_secrets(
    server: FaultServer, other: FaultServer, make_store: MakeStore
) -> None:
    said = {"Warning": '299 - "no more geheim-42"'}
    challenge = Reply(401, headers={"WWW-Authenticate": "Basic realm=x", **said})
    away = Reply(307, headers={"Location": f"{other.url}/m", **said})
    server.on("GET", "/v2/r/manifests/v1", challenge, away)
    other.on("GET", "/m", Reply(200, MANIFEST, {"Warning": '299 - "of the storage"'}))
    store = make_store(username="u", password="geheim-42")
    assert store.fetch_manifest("v1")[1] == MANIFEST
    assert store.host.warnings == ["no more ***"]
    assert store.warnings == [f"{server.host} says: no more ***"]


@pytest.mark.parametrize("target", ["http://[x/", "file:///x", "//u:p@127.0.0.1/"])
def test_addresses_that_are_none(target: str, host: Host) -> None:
    with pytest.raises(StoreError, match="address") as caught:
        host.resolve(target, "r: asking")
    assert caught.value.hint


@pytest.mark.parametrize("target", ["https://127.0.0.1/x", "https://localhost:5000/", "https://169.254.169.254/latest"])
def test_registries_cannot_point_into_this_machine(make_store: MakeStore, target: str) -> None:
    host = make_store(host="registry.invalid").host
    with pytest.raises(StoreError, match="an address of this machine"):
        host.resolve(target, "registry.invalid: asking")


@pytest.mark.parametrize(
    ("address", "origin"),
    [
        ("https://A.example/x", ("https", "a.example", 443)),
        ("https://a.example:443/y", ("https", "a.example", 443)),
        ("http://a.example:5000", ("http", "a.example", 5000)),
        ("http://a.example:443", ("http", "a.example", 443)),
        ("http://[::1]:5000/", ("http", "::1", 5000)),
        ("https://[2001:DB8::1]/", ("https", "2001:db8::1", 443)),
        ("https://b\u00fccher.example/", ("https", "b\u00fccher.example", 443)),
    ],
)
def test_the_origin_of_an_address(address: str, origin: tuple[str, str, int]) -> None:
    scheme, name, port = origin_of(httpx.URL(address))
    assert (scheme, name, port or {"http": 80, "https": 443}[scheme]) == origin


def test_a_host_is_made_once() -> None:
    with Hosts() as hosts:
        one = hosts.get("localhost:5000", RegistryOptions())
        assert hosts.get("localhost:5000", RegistryOptions()) is one
        assert hosts.get("localhost:5000", RegistryOptions(username="u")) is not one
        with pytest.raises(UsageError, match="not a valid registry host"):
            hosts.get("localhost:many", RegistryOptions())


def test_connections_may_come_while_all_are_interrupted(host: Host) -> None:
    class Stream:
        def get_extra_info(self, name: str, /) -> Any:
            return None

    made, stop = deque[Stream](maxlen=50), threading.Event()

    def connect() -> None:
        while not stop.is_set():
            made.append(Stream())
            host._connections.opened(cast(_Stream, made[-1]), 1.0)

    thread = threading.Thread(target=connect)
    thread.start()
    try:
        for _ in range(300):
            host.interrupt()
    finally:
        stop.set()
        thread.join()


def test_a_host_that_was_silent_is_waited_for_less_until_it_answers(host: Host) -> None:
    usual = {method: host.timeout(method)["read"] for method in ("GET", "HEAD", "PUT", "PATCH")}
    host.failed(httpx.ReadError("reset"))
    assert {method: host.timeout(method)["read"] for method in usual} == usual
    host.failed(httpx.ReadTimeout("silent"))
    shorter = {method: host.timeout(method)["read"] for method in usual}
    assert shorter == usual | {"GET": 15.0, "HEAD": 15.0}
    host.responded({})
    assert {method: host.timeout(method)["read"] for method in usual} == usual


def test_the_silence_of_many_connections_is_told_once(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(4):
        host._on_silence(10.0, 50.0)
    assert caplog.messages == [f"{host.name} has sent nothing for 10 s; waiting for it 50 s longer"]
