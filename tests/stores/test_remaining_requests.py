# SPDX-License-Identifier: Apache-2.0
"""What a host says is left of its quota, and what was asked of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from ocibridge.stores.registry import Hosts, RegistryOptions
from ocibridge.stores.registry.retry import remaining

from .asked import BLOB, DATA, MANIFEST, PATH, Make, all_of, make, other, pool, server, store_for
from .registry.fault_server import FaultServer, Reply

__all__ = ["make", "other", "pool", "server"]


@pytest.mark.parametrize(
    ("name", "value", "left"),
    [
        ("ratelimit-remaining", "76;w=21600", 76),
        ("ratelimit-remaining", "76", 76),
        ("ratelimit-remaining", "76;w=21600, 5;w=60", 5),
        ("ratelimit-remaining", "0", 0),
        ("ratelimit-remaining", "many", None),
        ("ratelimit-remaining", "-1", None),
        ("ratelimit-remaining", "9" * 30, None),
        ("ratelimit", '"default";r=50;t=30', 50),
        ("ratelimit", '"a";r=50;t=30, "b"; r=4', 4),
        ("ratelimit", "limit=100, remaining=50, reset=30", 50),
        ("ratelimit", '"default";q=100;t=30', None),
        ("date", "now", None),
    ],
)
def test_what_a_host_says_is_left(name: str, value: str, left: int | None) -> None:
    assert remaining({name: value}) == left


def left(count: int | None) -> Reply:
    return Reply(200, b"{}", headers={} if count is None else {"RateLimit-Remaining": f"{count};w=21600"})


def asked(server: FaultServer) -> list[str]:
    return [f"{seen.method} {seen.path.partition('/v2/r/')[2].partition('/')[0]}" for seen in server.seen]


def test_who_has_enough_does_not_wait(server: FaultServer, make: Make) -> None:
    server.on("GET", MANIFEST, left(10))
    store = make(remaining_min=10, remaining_wait=1000)
    for _ in range(3):
        store.fetch_manifest("v1")
    assert store.host.stats.waited == 0


def test_below_the_least_the_host_is_asked_until_there_is_more(server: FaultServer, make: Make) -> None:
    server.on("GET", MANIFEST, left(9))
    server.on("HEAD", MANIFEST, left(9), left(9), left(100), left(9))
    store = make(remaining_min=10, remaining_wait=0.01)
    store.fetch_manifest("v1")
    assert store.has_blob(BLOB)
    assert asked(server) == ["GET manifests", *["HEAD manifests"] * 3, "HEAD blobs"]
    assert server.seen[1].headers["accept"] == server.seen[0].headers["accept"]
    assert store.host.stats.waited >= 0.03


@pytest.mark.parametrize("script", [left(None), Reply(404), Reply(0)])
def test_where_nothing_tells_the_request_goes_on(script: Reply, server: FaultServer, make: Make) -> None:
    server.on("GET", MANIFEST, left(0), left(50))
    server.on("HEAD", MANIFEST, script)
    store = make(remaining_min=1, remaining_wait=0.01)
    store.fetch_manifest("v1")
    store.fetch_manifest("v1")
    assert asked(server) == ["GET manifests", "HEAD manifests", "GET manifests"]


def test_who_cannot_ask_only_waits(server: FaultServer, make: Make) -> None:
    server.on("PUT", MANIFEST, Reply(201, headers={"RateLimit-Remaining": "0"}))
    store = make(remaining_min=1, remaining_wait=0.01)
    for _ in range(2):
        store.push_manifest(b"{}", "application/json", "v1")
    assert asked(server) == ["PUT manifests"] * 2
    assert store.host.stats.waited >= 0.01


def test_one_asks_for_all(server: FaultServer, make: Make, pool: ThreadPoolExecutor) -> None:
    server.on("GET", MANIFEST, left(0))
    server.on("HEAD", MANIFEST, left(0), left(50))
    store = make(remaining_min=10, remaining_wait=0.05)
    store.fetch_manifest("v1")
    all_of([pool.submit(store.has_blob, BLOB) for _ in range(8)])
    assert len(server.requests("HEAD", MANIFEST)) == 2


def test_who_has_a_request_under_way_does_not_wait_for_quota(server: FaultServer, make: Make) -> None:
    store = make(remaining_min=10, remaining_wait=1000)
    with store.resume_blob(BLOB, 0):
        server.on("GET", MANIFEST, left(0))
        store.fetch_manifest("v1")
        store.fetch_manifest("v1")
    assert asked(server) == ["GET blobs", *["GET manifests"] * 2]


# What was asked.


def test_everything_that_is_sent_is_counted(server: FaultServer, other: FaultServer, make: Make) -> None:
    server.on("GET", PATH, Reply(503), Reply(0), Reply(307, headers={"Location": f"{other.url}{PATH}"}))
    store = make()
    with store.resume_blob(BLOB, 0) as reader:
        assert reader.read() == DATA
    stats = store.host.stats
    assert (stats.requests, stats.retries) == (4, 2)
    assert stats.waited > 0


def test_tokens_and_refusals_are_counted(server: FaultServer, make: Make) -> None:
    challenge = {"WWW-Authenticate": f'Bearer realm="{server.url}/token"'}
    server.on("HEAD", PATH, Reply(401, headers=challenge), Reply(200, DATA))
    server.on("GET", "/token", Reply(200, b'{"token":"t"}'))
    store = make()
    assert store.has_blob(BLOB)
    assert store.host.stats.requests == 3
    assert store.host.stats.retries == 0


def test_the_counts_of_all_hosts(server: FaultServer, other: FaultServer) -> None:
    with Hosts() as hosts:
        for at, options, count in (
            (server, RegistryOptions(), 1),
            (server, RegistryOptions(plain_http=True), 2),
            (other, RegistryOptions(), 3),
        ):
            for _ in range(count):
                store_for(at.host, options, hosts).has_blob(BLOB)
        assert {name: stats.requests for name, stats in hosts.stats.items()} == {server.host: 3, other.host: 3}
