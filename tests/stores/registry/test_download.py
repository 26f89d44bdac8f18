# SPDX-License-Identifier: Apache-2.0
"""Pulling from servers that misbehave."""

from __future__ import annotations

import gzip
import hashlib
import time
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime

import pytest

from ocibridge.errors import FormatError, IntegrityError, LimitError, NetworkError, NotFound, OcibridgeError, StoreError
from ocibridge.oci import MEDIA_TYPE_MANIFEST, Descriptor, Index
from ocibridge.settings import Limits
from ocibridge.stores.registry import RegistryStore, Retry

from .conftest import MakeStore
from .fault_server import FaultServer, Reply, Seen

DATA = hashlib.shake_128(b"data").digest(300_000)
BLOB = Descriptor.of(DATA, "application/octet-stream")
PATH = f"/v2/r/blobs/{BLOB.digest}"
MANIFEST = b'{"schemaVersion":2}'


def ranged(seen: Seen) -> Reply:
    """The rest of the blob, as a range asks for it."""
    start = int(seen.headers["range"].removeprefix("bytes=").removesuffix("-"))
    content_range = f"bytes {start}-{len(DATA) - 1}/{len(DATA)}"
    return Reply(206, DATA[start:], {"Content-Range": content_range})


def pull(store: RegistryStore) -> bytes:
    return store.read_blob(BLOB, len(DATA))


def test_wrong_bytes(server: FaultServer, store: RegistryStore) -> None:
    server.on("GET", PATH, Reply(200, DATA[:-1] + b"?"))
    with pytest.raises(IntegrityError, match="other bytes"):
        pull(store)


def test_more_bytes_than_promised(server: FaultServer, store: RegistryStore) -> None:
    server.on("GET", PATH, Reply(200, DATA + b"?"))
    with pytest.raises(IntegrityError, match="another size"):
        pull(store)


def test_a_dropped_connection_goes_on_where_it_broke(server: FaultServer, store: RegistryStore) -> None:
    server.on("GET", PATH, Reply(200, DATA, cut=100_000), ranged)
    assert pull(store) == DATA
    ranges = [seen.headers.get("range") for seen in server.requests("GET")]
    assert ranges[0] is None
    assert 0 < int((ranges[1] or "").removeprefix("bytes=").removesuffix("-")) <= 100_000


def test_progress_resets_the_count_of_failures(server: FaultServer, store: RegistryStore) -> None:
    def a_little(seen: Seen) -> Reply:
        whole = ranged(seen) if "range" in seen.headers else Reply(200, DATA)
        return Reply(whole.status, whole.body, whole.headers, cut=30_000)

    server.on("GET", PATH, *[a_little] * 9, ranged)
    assert pull(store) == DATA
    assert len(server.requests("GET")) > 5


def test_body_without_length_that_stops_early(server: FaultServer, store: RegistryStore) -> None:
    server.on("GET", PATH, Reply(200, DATA, cut=100_000, length=False), ranged)
    assert pull(store) == DATA


def test_server_without_ranges_starts_over(server: FaultServer, store: RegistryStore) -> None:
    server.on("GET", PATH, Reply(200, DATA, cut=100_000), Reply(200, DATA))
    assert pull(store) == DATA


@pytest.mark.parametrize("content_range", ["bytes 0-299999/300000", "bytes 5-9/10", "", "bytes x"])
def test_another_range_is_refused(server: FaultServer, store: RegistryStore, content_range: str) -> None:
    server.on("GET", PATH, Reply(206, DATA[1000:], {"Content-Range": content_range}))
    with pytest.raises(IntegrityError, match="another range"):
        store._open_blob(BLOB, 1000)


def test_a_connection_that_stays_broken(server: FaultServer, store: RegistryStore) -> None:
    server.on("GET", PATH, Reply(0))
    with pytest.raises(NetworkError, match="r: pulling the blob sha256"):
        pull(store)
    assert len(server.seen) == 3


def test_encoded_bodies_are_refused(server: FaultServer, store: RegistryStore) -> None:
    encoded = Reply(200, gzip.compress(DATA), {"Content-Encoding": "gzip"})
    server.on("GET", PATH, encoded)
    server.on("GET", "/v2/r/manifests/v1", encoded)
    for ask in (lambda: pull(store), lambda: store.fetch_manifest("v1")):
        with pytest.raises(StoreError, match="encoded"):
            ask()
    assert {seen.headers["accept-encoding"] for seen in server.seen} == {"identity"}


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_transient_answers_are_tried_again(server: FaultServer, store: RegistryStore, status: int) -> None:
    server.on("GET", PATH, Reply(status), Reply(200, DATA))
    assert pull(store) == DATA


@pytest.mark.parametrize("status", [400, 403, 404, 410, 451, 501, 505])
def test_final_answers_are_not(server: FaultServer, store: RegistryStore, status: int) -> None:
    server.on("GET", PATH, Reply(status), Reply(200, DATA))
    with pytest.raises(StoreError) as caught:
        pull(store)
    assert caught.value.status == status
    assert len(server.seen) == 1


def test_retry_after_is_obeyed(server: FaultServer, store: RegistryStore) -> None:
    server.on("GET", PATH, Reply(429, headers={"Retry-After": "1"}), Reply(200, DATA))
    start = time.monotonic()
    assert pull(store) == DATA
    assert time.monotonic() - start >= 0.95


def test_retry_after_of_hours_ends_at_once(server: FaultServer, store: RegistryStore) -> None:
    moment = format_datetime(datetime.now(timezone.utc) + timedelta(hours=5), usegmt=True)
    server.on("GET", PATH, Reply(429, headers={"Retry-After": moment}))
    with pytest.raises(StoreError, match=r"asks to wait 1\d{4} seconds"):
        pull(store)
    assert len(server.seen) == 1


def test_redirect_to_another_host_gets_no_credentials(
    server: FaultServer, other: FaultServer, make_store: MakeStore
) -> None:
    store = make_store(username="u", password="geheim")
    server.on(
        "GET",
        PATH,
        Reply(401, headers={"WWW-Authenticate": "Basic realm=x"}),
        Reply(307, headers={"Location": f"{other.url}/cdn?sig=abc", "Set-Cookie": "a=b"}),
    )
    other.on("GET", "/cdn", Reply(200, DATA, cut=1000), ranged)
    assert pull(store) == DATA
    assert server.seen[-1].authorization
    assert [seen.authorization for seen in other.seen] == [None, None]
    assert all("cookie" not in seen.headers for seen in server.seen + other.seen)


def test_redirects_without_end(server: FaultServer, store: RegistryStore) -> None:
    server.on("GET", PATH, Reply(302, headers={"Location": PATH}))
    with pytest.raises(StoreError, match="more than 5 times"):
        pull(store)
    assert len(server.seen) == 6


def test_redirect_that_leads_nowhere_good(server: FaultServer, store: RegistryStore) -> None:
    for location in ("file:///etc/passwd", "ftp://x/", "http://u:p@127.0.0.1/", "http://[x/"):
        server.on("GET", PATH, Reply(302, headers={"Location": location}))
        with pytest.raises(StoreError, match="the registry"):
            pull(store)


def test_oversize_manifest(server: FaultServer, make_store: MakeStore) -> None:
    store = make_store(limits=Limits(manifest=1000))
    server.on("GET", "/v2/r/manifests/v1", Reply(200, b" " * 1001))
    with pytest.raises(LimitError, match="larger than 1000 bytes"):
        store.fetch_manifest("v1")
    with pytest.raises(LimitError, match="larger than 1000 bytes"):
        store.push_manifest(b" " * 1001, MEDIA_TYPE_MANIFEST, "v1")


def test_manifest_digests(server: FaultServer, store: RegistryStore) -> None:
    server.on("GET", "/v2/r/manifests/v1", Reply(200, MANIFEST, {"Content-Type": MEDIA_TYPE_MANIFEST}))
    assert store.fetch_manifest("v1")[1] == MANIFEST
    server.on("GET", "/v2/r/manifests/v1", Reply(200, MANIFEST, {"Docker-Content-Digest": BLOB.digest}))
    with pytest.raises(IntegrityError, match="digest that the registry announces"):
        store.fetch_manifest("v1")
    server.on("GET", f"/v2/r/manifests/{BLOB.digest}", Reply(200, MANIFEST))
    with pytest.raises(IntegrityError):
        store.fetch_manifest(BLOB.digest)


@pytest.mark.parametrize(
    "body", [b"", b"nonsense", b"[]", b'{"errors":7}', b'{"errors":[{"code":3}]}', b"\xff\x00", b"[" * 99999]
)
def test_garbage_in_errors(server: FaultServer, store: RegistryStore, body: bytes) -> None:
    server.on("GET", "/v2/r/manifests/v1", Reply(404, body))
    with pytest.raises(NotFound, match=r"failed with status 404; "):
        store.fetch_manifest("v1")


@pytest.mark.parametrize("body", [b"", b"nonsense", b"[]", b'{"tags":7}', b'{"tags":[1]}', b'{"tags":"abc"}', b"\xff"])
def test_garbage_in_listings(server: FaultServer, store: RegistryStore, body: bytes) -> None:
    server.on("GET", "/v2/r/tags/list", Reply(200, body))
    try:
        assert store.tags() == ["a", "b", "c"]  # what the last but one comes to
    except OcibridgeError:
        pass


def test_paging(server: FaultServer, other: FaultServer, store: RegistryStore) -> None:
    def page(tag: str, following: str) -> Reply:
        return Reply(200, b'{"tags":["%s"]}' % tag.encode(), {"Link": f'<{following}>; rel="next"'})

    server.on("GET", "/v2/r/tags/list", page("b", "/v2/r/tags/list?last=b"), page("a", "/v2/r/tags/list"))
    assert store.tags() == ["a", "b"]
    server.on("GET", "/v2/r/tags/list", page("b", f"{other.url}/v2/r/tags/list"))
    with pytest.raises(StoreError, match="another host"):
        store.tags()
    assert not other.seen


def test_referrers_api(server: FaultServer, store: RegistryStore) -> None:
    entries = [BLOB.model_copy(update={"artifact_type": kind}) for kind in ("x", "y")]
    body = Index(manifests=entries).to_json()
    kind = {"Content-Type": "application/vnd.oci.image.index.v1+json"}
    server.on("GET", f"/v2/r/referrers/{BLOB.digest}", Reply(200, body, kind))
    assert [found.artifact_type for found in store.referrers(BLOB.digest, "y")] == ["y"]
    server.on("GET", f"/v2/r/referrers/{BLOB.digest}", Reply(200, b"{}", kind))
    with pytest.raises(FormatError):
        store.referrers(BLOB.digest)
    server.on("GET", f"/v2/r/referrers/{BLOB.digest}", Reply(303, headers={"Location": "/limit"}))
    assert store.referrers(BLOB.digest) == []


def test_refused_connection_fails_fast(make_store: MakeStore) -> None:
    start = time.monotonic()
    for host, words in (("127.0.0.1:1", "refused the connection"), ("no-such-host.invalid", "has no address")):
        with pytest.raises(NetworkError, match=words):
            make_store(host=host, retries=Retry()).fetch_manifest("v1")
    assert time.monotonic() - start < 8
    with pytest.raises(OcibridgeError):
        make_store(host="127.0.0.1:99999").fetch_manifest("v1")


def test_closed_store_stops(server: FaultServer, store: RegistryStore) -> None:
    store.client._hosts.close()
    with pytest.raises(NetworkError, match="closed"):
        store.fetch_manifest("v1")
