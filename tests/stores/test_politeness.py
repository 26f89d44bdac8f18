# SPDX-License-Identifier: Apache-2.0
"""How much is asked of a host, where its users limit that; and what was asked of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from ocibridge.errors import LimitError, NetworkError, NotFound, OcibridgeError, UsageError
from ocibridge.settings import Limits
from ocibridge.stores.registry.backoff import remaining
from ocibridge.stores.registry.download import BlobReader
from ocibridge.stores.registry.hosts import Hosts
from ocibridge.stores.registry.http import Host
from ocibridge.stores.registry.options import Manners, RegistryOptions
from ocibridge.stores.registry.repository import Repository

from .asked import BLOB, DATA, MANIFEST, PATH, WAIT, Elsewhere, Make, make, other, server
from .registry.fault_server import FaultServer, Reply, Seen

__all__ = ["make", "other", "server"]


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as running:
        yield running


def under_way(repository: Repository) -> int:
    turns = repository.host._turns
    assert turns is not None
    return turns._under_way


def queued(repository: Repository, count: int) -> None:
    """Wait until so many wait for their turn."""
    turns = repository.host._turns
    assert turns is not None
    until(lambda: len(turns._queue) == count)


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def all_of(futures: list[Future[Any]]) -> None:
    for each in futures:
        each.result(timeout=WAIT)


# Requests at the same time.


def test_so_many_at_the_same_time_and_no_more(server: FaultServer, make: Make, pool: ThreadPoolExecutor) -> None:
    together, now, most = threading.Barrier(3), [0], [0]
    lock = threading.Lock()

    def answer(_: Seen) -> Reply:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        together.wait(WAIT)
        with lock:
            now[0] -= 1
        return Reply(200, DATA)

    server.on("HEAD", PATH, answer)
    repository = make(concurrent=3)
    all_of([pool.submit(repository.has_blob, BLOB) for _ in range(12)])
    assert most == [3]
    assert under_way(repository) == 0


def test_a_body_that_is_open_counts(server: FaultServer, make: Make, pool: ThreadPoolExecutor) -> None:
    repository = make(concurrent=1)
    reader = repository.open_blob(BLOB)
    asking = pool.submit(repository.has_blob, BLOB)
    queued(repository, 1)
    assert not server.requests("HEAD")
    reader.close()
    assert asking.result(timeout=WAIT)
    assert under_way(repository) == 0


def test_who_comes_first_is_served_first(server: FaultServer, make: Make, pool: ThreadPoolExecutor) -> None:
    repository = make(concurrent=1)
    digests = [f"sha256:{number:064}" for number in range(8)]
    reader = repository.open_blob(BLOB)
    asking = []
    for number, digest in enumerate(digests, 1):
        asking.append(pool.submit(repository.has_blob, BLOB.model_copy(update={"digest": digest})))
        queued(repository, number)
    reader.close()
    all_of(asking)
    assert [seen.path.rpartition("/")[2] for seen in server.requests("HEAD")] == digests


def test_a_thread_does_not_wait_for_itself(server: FaultServer, make: Make) -> None:
    repository = make(concurrent=1)
    with repository.open_blob(BLOB) as first, repository.open_blob(BLOB) as second:
        assert repository.has_blob(BLOB)
        assert first.read() == second.read() == DATA
    assert under_way(repository) == 0


def test_a_blob_goes_from_a_host_to_itself(server: FaultServer, make: Make) -> None:
    repository = make(concurrent=1)
    repository.push_blob(BLOB, Elsewhere(repository))
    assert server.requests("PUT")[0].body == DATA
    assert under_way(repository) == 0


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_many_blobs_go_from_a_host_to_itself(
    limit: int, server: FaultServer, make: Make, pool: ThreadPoolExecutor
) -> None:
    repository = make(concurrent=limit)
    # As many uploads as may be under way wait for each other before they want their bytes.
    begun = threading.Barrier(limit)
    for content, count in ((Elsewhere(repository, begun), limit), (Elsewhere(repository), 3 * limit)):
        all_of([pool.submit(repository.push_blob, BLOB, content) for _ in range(count)])
    assert [seen.body for seen in server.requests("PUT")] == [DATA] * 4 * limit
    assert under_way(repository) == 0


def test_hosts_do_not_wait_for_each_other(
    server: FaultServer, other: FaultServer, make: Make, pool: ThreadPoolExecutor
) -> None:
    here, there = make(concurrent=1), make(other, concurrent=1)
    begun = threading.Barrier(2)
    for barrier, count in ((begun, 1), (None, 3)):
        ways = [(here, there), (there, here)] * count
        all_of([pool.submit(target.push_blob, BLOB, Elsewhere(source, barrier)) for source, target in ways])
    assert [seen.body for each in (server, other) for seen in each.requests("PUT")] == [DATA] * 8
    assert under_way(here) == under_way(there) == 0


def test_a_limit_is_kept_while_others_can_still_end(server: FaultServer, make: Make, pool: ThreadPoolExecutor) -> None:
    repository = make(concurrent=2)
    go_on, opened = threading.Event(), threading.Event()

    def hold() -> None:
        with repository.open_blob(BLOB):
            opened.set()
            assert go_on.wait(WAIT)

    held = pool.submit(hold)
    assert opened.wait(WAIT)
    pushed = pool.submit(repository.push_blob, BLOB, Elsewhere(repository))
    queued(repository, 1)
    assert len(server.requests("GET")) == 1
    go_on.set()
    all_of([held, pushed])
    assert under_way(repository) == 0


@pytest.mark.parametrize(
    ("scripts", "what", "error"),
    [
        ([Reply(404)], "get_manifest", NotFound),
        ([Reply(0)], "get_manifest", NetworkError),
        ([Reply(503), Reply(200, b"{}")], "get_manifest", None),
        ([Reply(200, b"x" * 100)], "get_manifest", LimitError),
        ([Reply(307, headers={"Location": MANIFEST})], "get_manifest", OcibridgeError),
        ([Reply(307, headers={"Location": "http://["})], "get_manifest", OcibridgeError),
        ([Reply(200, b"{}", cut=1)], "get_manifest", NetworkError),
    ],
)
def test_whatever_happens_the_turn_ends(
    scripts: list[Reply], what: str, error: type[Exception] | None, server: FaultServer, make: Make
) -> None:
    repository = make(concurrent=1, limits=Limits(manifest=50))
    server.on("GET", MANIFEST, *scripts)
    if error is None:
        repository.get_manifest("v1")
    else:
        with pytest.raises(error):
            repository.get_manifest("v1")
    assert under_way(repository) == 0


@pytest.mark.parametrize("script", [Reply(404), Reply(0), Reply(200, DATA, cut=3), Reply(416)])
def test_whatever_happens_to_a_blob_the_turn_ends(script: Reply, server: FaultServer, make: Make) -> None:
    repository = make(concurrent=1)
    server.on("GET", PATH, script)
    with pytest.raises(OcibridgeError), repository.open_blob(BLOB) as reader:
        reader.read()
    assert under_way(repository) == 0


def test_token_servers_do_not_count(server: FaultServer, make: Make, pool: ThreadPoolExecutor) -> None:
    repository = make(concurrent=1, per_second=1000, quota_min=1)
    challenge = {"WWW-Authenticate": f'Bearer realm="{server.url}/token",service="s"'}
    server.on(
        "HEAD",
        PATH,
        lambda seen: Reply(200, DATA) if seen.authorization == "Bearer t" else Reply(401, headers=challenge),
    )
    # What it says of its own quota is not the registry's.
    server.on("GET", "/token", Reply(200, b'{"token":"t"}', headers={"RateLimit-Remaining": "0"}))
    all_of([pool.submit(repository.has_blob, BLOB) for _ in range(5)])
    assert len(server.requests("GET", "/token")) == 1
    assert under_way(repository) == 0


# What ends the waiting.


def waits_for_its_turn(server: FaultServer, make: Make, stack: ExitStack) -> Repository:
    repository = make(concurrent=1)
    stack.enter_context(repository.open_blob(BLOB))
    return repository


def waits_for_the_next_second(server: FaultServer, make: Make, stack: ExitStack) -> Repository:
    repository = make(per_second=0.001)
    repository.get_manifest("v1")
    return repository


def waits_for_more_quota(server: FaultServer, make: Make, stack: ExitStack) -> Repository:
    server.on("GET", MANIFEST, Reply(200, b"{}", headers={"RateLimit-Remaining": "1"}))
    repository = make(quota_min=5, quota_wait=1000)
    repository.get_manifest("v1")
    return repository


@pytest.mark.parametrize("how", [Host.interrupt, Host.close])
@pytest.mark.parametrize("prepare", [waits_for_its_turn, waits_for_the_next_second, waits_for_more_quota])
def test_a_host_that_is_closed_lets_nobody_wait(
    prepare: Callable[[FaultServer, Make, ExitStack], Repository],
    how: Callable[[Host], None],
    server: FaultServer,
    make: Make,
    pool: ThreadPoolExecutor,
) -> None:
    with ExitStack() as stack:
        repository = prepare(server, make, stack)
        asking = [pool.submit(repository.has_blob, BLOB) for _ in range(3)]
        how(repository.host)
        for each in asking:
            assert isinstance(each.exception(timeout=WAIT), NetworkError)
    assert not server.requests("HEAD")
    assert under_way(repository) == 0


# Requests per second.


def test_requests_are_spaced(server: FaultServer, make: Make, pool: ThreadPoolExecutor) -> None:
    repository = make(per_second=40)
    started = time.monotonic()
    all_of([pool.submit(repository.has_blob, BLOB) for _ in range(9)])
    assert time.monotonic() - started >= 8 / 40
    assert repository.host.stats.waited >= 8 / 40


def test_what_goes_to_a_storage_host_is_not_spaced(server: FaultServer, other: FaultServer, make: Make) -> None:
    server.on("GET", PATH, Reply(307, headers={"Location": f"{other.url}{PATH}"}))
    repository = make(per_second=0.001)
    with repository.open_blob(BLOB) as reader:
        assert reader.read() == DATA
    assert repository.host.stats.waited == 0


# What is left of a quota.


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
    repository = make(quota_min=10, quota_wait=1000)
    for _ in range(3):
        repository.get_manifest("v1")
    assert repository.host.stats.waited == 0


def test_below_the_least_the_host_is_asked_until_there_is_more(server: FaultServer, make: Make) -> None:
    server.on("GET", MANIFEST, left(9))
    server.on("HEAD", MANIFEST, left(9), left(9), left(100), left(9))
    repository = make(quota_min=10, quota_wait=0.01)
    repository.get_manifest("v1")
    assert repository.has_blob(BLOB)
    assert asked(server) == ["GET manifests", *["HEAD manifests"] * 3, "HEAD blobs"]
    assert server.seen[1].headers["accept"] == server.seen[0].headers["accept"]
    assert repository.host.stats.waited >= 0.03


@pytest.mark.parametrize("script", [left(None), Reply(404), Reply(0)])
def test_where_nothing_tells_the_request_goes_on(script: Reply, server: FaultServer, make: Make) -> None:
    server.on("GET", MANIFEST, left(0), left(50))
    server.on("HEAD", MANIFEST, script)
    repository = make(quota_min=1, quota_wait=0.01)
    repository.get_manifest("v1")
    repository.get_manifest("v1")
    assert asked(server) == ["GET manifests", "HEAD manifests", "GET manifests"]


def test_who_cannot_ask_only_waits(server: FaultServer, make: Make) -> None:
    server.on("PUT", MANIFEST, Reply(201, headers={"RateLimit-Remaining": "0"}))
    repository = make(quota_min=1, quota_wait=0.01)
    for _ in range(2):
        repository.put_manifest(b"{}", "application/json", "v1")
    assert asked(server) == ["PUT manifests"] * 2
    assert repository.host.stats.waited >= 0.01


def test_one_asks_for_all(server: FaultServer, make: Make, pool: ThreadPoolExecutor) -> None:
    server.on("GET", MANIFEST, left(0))
    server.on("HEAD", MANIFEST, left(0), left(50))
    repository = make(quota_min=10, quota_wait=0.05)
    repository.get_manifest("v1")
    all_of([pool.submit(repository.has_blob, BLOB) for _ in range(8)])
    assert len(server.requests("HEAD", MANIFEST)) == 2


def test_who_has_a_request_under_way_does_not_wait_for_quota(server: FaultServer, make: Make) -> None:
    repository = make(quota_min=10, quota_wait=1000)
    with repository.open_blob(BLOB):
        server.on("GET", MANIFEST, left(0))
        repository.get_manifest("v1")
        repository.get_manifest("v1")
    assert asked(server) == ["GET blobs", *["GET manifests"] * 2]


# What it costs, and what it costs not.


def test_nothing_is_held_back_by_default(make: Make) -> None:
    repository = make()
    assert repository.host._turns is None
    assert repository.host.latency > 0


@pytest.mark.parametrize("manners", [{"concurrent": 4}, {"per_second": 1000}, {"quota_min": 1}])
def test_a_limited_host_gives_a_blob_in_one_request(manners: dict[str, Any], server: FaultServer, make: Make) -> None:
    repository = make(**manners)
    large = BLOB.model_copy(update={"size": 1 << 30})
    with repository.open_blob(large) as reader:
        assert isinstance(reader, BlobReader)
    assert "range" not in server.seen[0].headers


@pytest.mark.parametrize(
    ("manners", "message"),
    [
        ({"concurrent": 0}, "concurrent cannot be 0; choose a number of at least 1"),
        ({"per_second": 0}, "per_second cannot be 0; choose a number of at least 0.0001"),
        ({"per_second": float("inf")}, "per_second cannot be inf; choose a number of at least 0.0001"),
        ({"quota_min": -1}, "quota_min cannot be -1; choose a number of at least 0"),
        ({"quota_wait": float("nan")}, "quota_wait cannot be nan; choose a number of at least 0.01"),
    ],
)
def test_numbers_that_cannot_work(manners: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Manners(**manners)
    assert str(caught.value) == message


def test_everything_that_is_sent_is_counted(server: FaultServer, other: FaultServer, make: Make) -> None:
    server.on("GET", PATH, Reply(503), Reply(0), Reply(307, headers={"Location": f"{other.url}{PATH}"}))
    repository = make()
    with repository.open_blob(BLOB) as reader:
        assert reader.read() == DATA
    stats = repository.host.stats
    assert (stats.requests, stats.retries) == (4, 2)
    assert stats.waited > 0


def test_tokens_and_refusals_are_counted(server: FaultServer, make: Make) -> None:
    challenge = {"WWW-Authenticate": f'Bearer realm="{server.url}/token"'}
    server.on("HEAD", PATH, Reply(401, headers=challenge), Reply(200, DATA))
    server.on("GET", "/token", Reply(200, b'{"token":"t"}'))
    repository = make()
    assert repository.has_blob(BLOB)
    assert repository.host.stats.requests == 3
    assert repository.host.stats.retries == 0


def test_the_counts_of_all_hosts(server: FaultServer, other: FaultServer) -> None:
    with Hosts() as hosts:
        for at, options, count in (
            (server, RegistryOptions(), 1),
            (server, RegistryOptions(insecure=True), 2),
            (other, RegistryOptions(), 3),
        ):
            for _ in range(count):
                Repository(hosts.get(at.host, options), "r").has_blob(BLOB)
        assert {name: stats.requests for name, stats in hosts.stats.items()} == {server.host: 3, other.host: 3}
