# SPDX-License-Identifier: Apache-2.0
"""What all requests to a host have in common: limits that are announced, timeouts, names in errors."""

from __future__ import annotations

import time

import pytest

from ocibridge.errors import NetworkError, StoreError
from ocibridge.oci import MEDIA_TYPE_MANIFEST
from ocibridge.stores.registry import Retry
from ocibridge.stores.registry.options import Timeouts

from .conftest import MakeStore
from .fault_server import FaultServer, Reply, Seen

MANIFEST = b'{"schemaVersion":2}'
V1 = "/v2/r/manifests/v1"


@pytest.mark.parametrize(
    "headers", [{"RateLimit-Remaining": "0", "RateLimit-Reset": "1"}, {"RateLimit": '"pulls";r=0;t=1'}]
)
def test_a_limit_that_is_announced_holds_the_host(
    headers: dict[str, str], server: FaultServer, make_store: MakeStore
) -> None:
    """The answer was good, so nothing has failed; yet the next request, of whatever repository, waits."""
    server.on("GET", V1, Reply(200, MANIFEST, headers))
    server.on("GET", "/v2/other/manifests/v1", Reply(200, MANIFEST))
    a, b = make_store(), make_store("other")
    start = time.monotonic()
    a.fetch_manifest("v1")
    b.fetch_manifest("v1")
    assert time.monotonic() - start >= 0.95


def test_a_limit_beyond_the_longest_wait_is_left_to_the_429(server: FaultServer, make_store: MakeStore) -> None:
    gone = {"RateLimit-Remaining": "0", "RateLimit-Reset": "7200"}
    server.on("GET", V1, Reply(200, MANIFEST, gone), Reply(429, headers=gone))
    store = make_store()
    start = time.monotonic()
    store.fetch_manifest("v1")
    with pytest.raises(StoreError, match="asks to wait 7200 seconds"):
        store.fetch_manifest("v1")
    assert time.monotonic() - start < 60
    assert len(server.seen) == 2


def test_a_limit_of_a_storage_host_is_not_the_registrys(
    server: FaultServer, other: FaultServer, make_store: MakeStore
) -> None:
    server.on("GET", V1, Reply(307, headers={"Location": f"{other.url}/m"}))
    other.on("GET", "/m", Reply(200, MANIFEST, {"RateLimit": '"x";r=0;t=300'}))
    store = make_store()
    start = time.monotonic()
    for _ in range(2):
        store.fetch_manifest("v1")
    assert time.monotonic() - start < 60


def test_errors_name_the_host_that_broke_the_connection(
    server: FaultServer, other: FaultServer, make_store: MakeStore
) -> None:
    server.on("GET", V1, Reply(307, headers={"Location": f"{other.url}/m?sig=abc"}))
    other.on("GET", "/m", Reply(0))
    with pytest.raises(NetworkError, match=f"{server.host}/r: pulling .* because {other.host} broke") as caught:
        make_store().fetch_manifest("v1")
    assert "abc" not in str(caught.value)


def test_who_hangs_up_is_there(server: FaultServer, make_store: MakeStore) -> None:
    """A host that took a connection is worth more tries than one that was never reached."""
    store = make_store(retries=Retry(attempts=4, unreachable=1, first=0.01))
    server.on("GET", V1, Reply(0))
    with pytest.raises(NetworkError):
        store.fetch_manifest("v1")
    assert len(server.seen) == 4
    assert store.host.backoff.connected
    assert not store.host.backoff.responded


def test_a_closing_put_has_a_timeout_of_its_own(server: FaultServer, make_store: MakeStore) -> None:
    def slow(seen: Seen) -> Reply:
        time.sleep(0.6)
        return Reply(201)

    server.on("PUT", V1, slow)
    make_store(timeouts=Timeouts(read=0.2, commit=30)).push_manifest(MANIFEST, MEDIA_TYPE_MANIFEST, "v1")
    with pytest.raises(NetworkError, match="stopped responding"):
        make_store(timeouts=Timeouts(commit=0.2)).push_manifest(MANIFEST, MEDIA_TYPE_MANIFEST, "v1")


def test_bytes_are_sent_whole_with_their_length(server: FaultServer, make_store: MakeStore) -> None:
    data = b" " * 300_000 + MANIFEST
    server.on("PUT", V1, Reply(500), Reply(201))
    make_store().push_manifest(data, MEDIA_TYPE_MANIFEST, "v1")
    assert [seen.body == data for seen in server.seen] == [True, True]
    assert {seen.headers["content-length"] for seen in server.seen} == {str(len(data))}
    assert not any("transfer-encoding" in seen.headers for seen in server.seen)
