# SPDX-License-Identifier: Apache-2.0
"""How much is asked of a host, where its users limit that."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from ocibridge.errors import AuthenticationError, LimitError, NetworkError, NotFound, OcibridgeError, UsageError
from ocibridge.settings import Limits
from ocibridge.stores.registry import RateLimits, RegistryStore
from ocibridge.stores.registry.download import BlobReader
from ocibridge.stores.registry.host import Host

from .asked import BLOB, DATA, MANIFEST, PATH, WAIT, Elsewhere, Make, all_of, make, other, pool, server
from .registry.fault_server import FaultServer, Reply, Seen

__all__ = ["make", "other", "pool", "server"]


def under_way(store: RegistryStore) -> int:
    limiter = store.host.limiter
    assert limiter is not None
    return limiter._under_way


def queued(store: RegistryStore, count: int) -> None:
    """Wait until so many wait for a permit."""
    limiter = store.host.limiter
    assert limiter is not None
    until(lambda: len(limiter._queue) == count)


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


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
    store = make(concurrent=3)
    all_of([pool.submit(store.has_blob, BLOB) for _ in range(12)])
    assert most == [3]
    assert under_way(store) == 0


def test_a_body_that_is_open_counts(server: FaultServer, make: Make, pool: ThreadPoolExecutor) -> None:
    store = make(concurrent=1)
    reader = store.resume_blob(BLOB, 0)
    asking = pool.submit(store.has_blob, BLOB)
    queued(store, 1)
    assert not server.requests("HEAD")
    reader.close()
    assert asking.result(timeout=WAIT)
    assert under_way(store) == 0


def test_who_comes_first_is_served_first(server: FaultServer, make: Make, pool: ThreadPoolExecutor) -> None:
    store = make(concurrent=1)
    digests = [f"sha256:{number:064}" for number in range(8)]
    reader = store.resume_blob(BLOB, 0)
    asking = []
    for number, digest in enumerate(digests, 1):
        asking.append(pool.submit(store.has_blob, BLOB.model_copy(update={"digest": digest})))
        queued(store, number)
    reader.close()
    all_of(asking)
    assert [seen.path.rpartition("/")[2] for seen in server.requests("HEAD")] == digests


def test_a_thread_does_not_wait_for_itself(server: FaultServer, make: Make) -> None:
    store = make(concurrent=1)
    with store.resume_blob(BLOB, 0) as first, store.resume_blob(BLOB, 0) as second:
        assert store.has_blob(BLOB)
        assert first.read() == second.read() == DATA
    assert under_way(store) == 0


def test_a_blob_goes_from_a_host_to_itself(server: FaultServer, make: Make) -> None:
    store = make(concurrent=1)
    store.push_blob(BLOB, Elsewhere(store))
    assert server.requests("PUT")[0].body == DATA
    assert under_way(store) == 0


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_many_blobs_go_from_a_host_to_itself(
    limit: int, server: FaultServer, make: Make, pool: ThreadPoolExecutor
) -> None:
    store = make(concurrent=limit)
    # As many uploads as may be under way wait for each other before they want their bytes.
    begun = threading.Barrier(limit)
    for content, count in ((Elsewhere(store, begun), limit), (Elsewhere(store), 3 * limit)):
        all_of([pool.submit(store.push_blob, BLOB, content) for _ in range(count)])
    assert [seen.body for seen in server.requests("PUT")] == [DATA] * 4 * limit
    assert under_way(store) == 0


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
    store = make(concurrent=2)
    go_on, opened = threading.Event(), threading.Event()

    def hold() -> None:
        with store.resume_blob(BLOB, 0):
            opened.set()
            assert go_on.wait(WAIT)

    held = pool.submit(hold)
    assert opened.wait(WAIT)
    pushed = pool.submit(store.push_blob, BLOB, Elsewhere(store))
    queued(store, 1)
    assert len(server.requests("GET")) == 1
    go_on.set()
    all_of([held, pushed])
    assert under_way(store) == 0


@pytest.mark.parametrize(
    ("scripts", "error"),
    [
        ([Reply(404)], NotFound),
        ([Reply(0)], NetworkError),
        ([Reply(503), Reply(200, b"{}")], None),
        ([Reply(200, b"x" * 100)], LimitError),
        ([Reply(307, headers={"Location": MANIFEST})], OcibridgeError),
        ([Reply(307, headers={"Location": "http://["})], OcibridgeError),
        ([Reply(200, b"{}", cut=1)], NetworkError),
    ],
)
def test_whatever_happens_the_permit_is_given_back(
    scripts: list[Reply], error: type[Exception] | None, server: FaultServer, make: Make
) -> None:
    store = make(concurrent=1, limits=Limits(manifest=50))
    server.on("GET", MANIFEST, *scripts)
    if error is None:
        store.fetch_manifest("v1")
    else:
        with pytest.raises(error):
            store.fetch_manifest("v1")
    assert under_way(store) == 0


@pytest.mark.parametrize("script", [Reply(404), Reply(0), Reply(200, DATA, cut=3), Reply(416)])
def test_whatever_happens_to_a_blob_the_permit_is_given_back(script: Reply, server: FaultServer, make: Make) -> None:
    store = make(concurrent=1)
    server.on("GET", PATH, script)
    with pytest.raises(OcibridgeError), store.resume_blob(BLOB, 0) as reader:
        reader.read()
    assert under_way(store) == 0


def test_token_servers_do_not_count(server: FaultServer, make: Make, pool: ThreadPoolExecutor) -> None:
    store = make(concurrent=1, per_second=1000, remaining_min=1)
    challenge = {"WWW-Authenticate": f'Bearer realm="{server.url}/token",service="s"'}
    server.on(
        "HEAD",
        PATH,
        lambda seen: Reply(200, DATA) if seen.authorization == "Bearer t" else Reply(401, headers=challenge),
    )
    # What it says of its own quota is not the registry's.
    server.on("GET", "/token", Reply(200, b'{"token":"t"}', headers={"RateLimit-Remaining": "0"}))
    all_of([pool.submit(store.has_blob, BLOB) for _ in range(5)])
    assert len(server.requests("GET", "/token")) == 1
    assert under_way(store) == 0


# What ends the waiting.


def waits_for_a_permit(server: FaultServer, make: Make, stack: ExitStack) -> RegistryStore:
    store = make(concurrent=1)
    stack.enter_context(store.resume_blob(BLOB, 0))
    return store


def waits_for_the_next_second(server: FaultServer, make: Make, stack: ExitStack) -> RegistryStore:
    store = make(per_second=0.001)
    store.fetch_manifest("v1")
    return store


def waits_for_more_quota(server: FaultServer, make: Make, stack: ExitStack) -> RegistryStore:
    server.on("GET", MANIFEST, Reply(200, b"{}", headers={"RateLimit-Remaining": "1"}))
    store = make(remaining_min=5, remaining_wait=1000)
    store.fetch_manifest("v1")
    return store


@pytest.mark.parametrize("how", [Host.interrupt, Host.close])
@pytest.mark.parametrize("prepare", [waits_for_a_permit, waits_for_the_next_second, waits_for_more_quota])
def test_a_host_that_is_closed_lets_nobody_wait(
    prepare: Callable[[FaultServer, Make, ExitStack], RegistryStore],
    how: Callable[[Host], None],
    server: FaultServer,
    make: Make,
    pool: ThreadPoolExecutor,
) -> None:
    with ExitStack() as stack:
        store = prepare(server, make, stack)
        asking = [pool.submit(store.has_blob, BLOB) for _ in range(3)]
        how(store.host)
        for each in asking:
            assert isinstance(each.exception(timeout=WAIT), NetworkError)
    assert not server.requests("HEAD")
    assert under_way(store) == 0


# Requests per second.


def test_requests_are_spaced(server: FaultServer, make: Make, pool: ThreadPoolExecutor) -> None:
    store = make(per_second=40)
    started = time.monotonic()
    all_of([pool.submit(store.has_blob, BLOB) for _ in range(9)])
    assert time.monotonic() - started >= 8 / 40
    assert store.host.stats.waited >= 8 / 40


def test_what_goes_to_a_storage_host_is_not_spaced(server: FaultServer, other: FaultServer, make: Make) -> None:
    server.on("GET", PATH, Reply(307, headers={"Location": f"{other.url}{PATH}"}))
    store = make(per_second=0.001)
    with store.resume_blob(BLOB, 0) as reader:
        assert reader.read() == DATA
    assert store.host.stats.waited == 0


# What it costs, and what it costs not.


def test_nothing_is_held_back_by_default(make: Make) -> None:
    store = make()
    assert store.host.limiter is None
    assert store.host.latency == 0  # unknown
    assert store.has_blob(BLOB)
    assert store.host.latency > 0


@pytest.mark.parametrize("rates", [{"concurrent": 4}, {"per_second": 1000}, {"remaining_min": 1}])
def test_a_limited_host_gives_a_blob_in_one_request(rates: dict[str, Any], server: FaultServer, make: Make) -> None:
    store = make(**rates)
    large = BLOB.model_copy(update={"size": 1 << 30})
    with store.resume_blob(large, 0) as reader:
        assert isinstance(reader, BlobReader)
    assert "range" not in server.seen[0].headers


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        ({"concurrent": 0}, "concurrent cannot be 0; choose a number of at least 1"),
        ({"per_second": 0}, "per_second cannot be 0; choose a number of at least 0.0001"),
        ({"per_second": float("inf")}, "per_second cannot be inf; choose a number of at least 0.0001"),
        ({"remaining_min": -1}, "remaining_min cannot be -1; choose a number of at least 0"),
        ({"remaining_wait": float("nan")}, "remaining_wait cannot be nan; choose a number of at least 0.01"),
    ],
)
def test_numbers_that_cannot_work(rates: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        RateLimits(**rates)
    assert str(caught.value) == message


def test_a_refusal_gives_its_permit_back(server: FaultServer, make: Make) -> None:
    server.on("HEAD", PATH, Reply(401, headers={"WWW-Authenticate": "Basic realm=x"}))
    repository = make(concurrent=1)
    for _ in range(3):
        with pytest.raises(AuthenticationError):
            repository.has_blob(BLOB)
    assert under_way(repository) == 0
