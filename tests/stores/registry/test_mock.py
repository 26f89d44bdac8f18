# SPDX-License-Identifier: Apache-2.0
"""A transport of one's own in place of connections; hosts that are silent, talkative or no registries."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import httpx
import pytest

from ocibridge.errors import IntegrityError, NetworkError, OcibridgeError, StoreError
from ocibridge.io.content import BytesContent
from ocibridge.oci import MEDIA_TYPE_MANIFEST, Descriptor, Manifest, RegistryReference, sha256_digest
from ocibridge.stores.registry import RegistryOptions, RegistryStore, Retry, Timeouts, transport

from .conftest import MakeStore
from .fault_server import FaultServer, Reply, Seen
from .raw_server import RawServer

DATA = bytes(range(256)) * 1000
BLOB = Descriptor.of(DATA, "application/octet-stream")


class InMemory:
    """A registry without a server: uploads by POST and PUT, blobs with ranges, manifests."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, bytes] = {}
        self.asked: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(f"{request.method} {request.url.path}")
        what, _, name = request.url.path.removeprefix("/v2/models/digits/").partition("/")
        if what == "manifests":
            return self._manifest(request, name)
        if request.method == "POST":
            return httpx.Response(202, headers={"Location": "/v2/models/digits/blobs/uploads/1?state=a%2Fb"})
        if request.method == "PUT":
            assert request.url.params["state"] == "a/b"
            data = request.read()
            assert request.headers["content-length"] == str(len(data))
            assert sha256_digest(data) == request.url.params["digest"]
            self.blobs[request.url.params["digest"]] = data
            return httpx.Response(201)
        if name not in self.blobs:
            return httpx.Response(404)
        data = self.blobs[name]
        if request.method == "HEAD":
            return httpx.Response(200, headers={"Content-Length": str(len(data))})
        return httpx.Response(200, content=data)

    def _manifest(self, request: httpx.Request, version: str) -> httpx.Response:
        if request.method == "PUT":
            data = request.read()
            self.manifests[version] = self.manifests[sha256_digest(data)] = data
            return httpx.Response(201, headers={"Docker-Content-Digest": sha256_digest(data)})
        if version not in self.manifests:
            return httpx.Response(404, json={"errors": [{"code": "MANIFEST_UNKNOWN"}]})
        return httpx.Response(200, content=self.manifests[version], headers={"Content-Type": MEDIA_TYPE_MANIFEST})


@pytest.fixture
def memory() -> InMemory:
    return InMemory()


@pytest.fixture
def store(memory: InMemory) -> Iterator[RegistryStore]:
    options = RegistryOptions(transport=httpx.MockTransport(memory), retries=Retry(attempts=2, first=0.001))
    with RegistryStore(RegistryReference("registry.invalid", "models/digits"), options) as made:
        yield made


def test_a_transport_of_ones_own_takes_a_push_and_gives_a_pull(memory: InMemory, store: RegistryStore) -> None:
    counted: list[int] = []
    assert not store.has_blob(BLOB)
    store.push_blob(BLOB, BytesContent(DATA), counted.append)
    assert sum(counted) == len(DATA)
    manifest = Manifest(config=BLOB, layers=[BLOB]).to_json()
    pushed = store.push_manifest(manifest, MEDIA_TYPE_MANIFEST, "v1")
    assert store.fetch_manifest("v1") == store.fetch_manifest(pushed.digest) == (pushed, manifest)
    assert store.read_blob(BLOB, len(DATA)) == DATA
    assert memory.asked[:4] == [
        f"HEAD /v2/models/digits/blobs/{BLOB.digest}",
        "POST /v2/models/digits/blobs/uploads/",
        "PUT /v2/models/digits/blobs/uploads/1",
        "PUT /v2/models/digits/manifests/v1",
    ]


def test_what_a_transport_of_ones_own_gives_is_verified_too(memory: InMemory, store: RegistryStore) -> None:
    memory.blobs[BLOB.digest] = DATA[::-1]
    with pytest.raises(IntegrityError, match="other bytes"):
        store.read_blob(BLOB, len(DATA))


def test_errors_of_a_transport_of_ones_own_are_tried_again(store: RegistryStore) -> None:
    tries: list[str] = []

    def fail(request: httpx.Request) -> httpx.Response:
        tries.append(request.method)
        raise httpx.ReadError("it broke", request=request)

    options = RegistryOptions(transport=httpx.MockTransport(fail), retries=Retry(attempts=3, first=0.001))
    with RegistryStore(RegistryReference("registry.invalid", "r"), options) as broken:
        with pytest.raises(NetworkError, match="broke the connection"):
            broken.fetch_manifest("v1")
    assert tries == ["GET"] * 3


def test_a_silent_host_is_told_of_once(
    server: FaultServer, make_store: MakeStore, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "SILENT", 0.3)

    def slow(seen: Seen) -> Reply:
        time.sleep(1.0)
        return Reply(200, b"{}")

    server.on("GET", "/v2/r/manifests/v1", slow)
    server.on("GET", "/v2/r/manifests/v2", Reply(200, b"{}"))
    store = make_store(timeouts=Timeouts(read=20.0))
    with caplog.at_level(logging.WARNING, "ocibridge"):
        store.fetch_manifest("v2")
        assert not caplog.records
        store.fetch_manifest("v1")
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("ocibridge", "WARNING")
    assert record.getMessage() == f"{server.host} has sent nothing for 0 s; waiting for it 20 s longer"


def test_a_short_timeout_is_not_longer_because_of_that(server: FaultServer, make_store: MakeStore) -> None:
    go_on = threading.Event()

    def never(seen: Seen) -> Reply:
        go_on.wait(30)
        return Reply(200)

    server.on("GET", "/v2/r/manifests/v1", never)
    started = time.monotonic()
    try:
        with pytest.raises(NetworkError, match="stopped responding"):
            make_store(timeouts=Timeouts(read=0.3), retries=Retry(attempts=1)).fetch_manifest("v1")
    finally:
        go_on.set()
    assert time.monotonic() - started < 10


ODD: dict[str, tuple[bytes | None, str]] = {
    "no HTTP": (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "sent no valid HTTP response"),
    "nothing": (None, "broke the connection 2 times in a row"),
    "another protocol": (
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        "no valid HTTP response",
    ),
    "half a body": (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}", "broke the connection 2 times in a row"),
    "two lengths": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", "no valid HTTP response"),
}


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize(("said", "words"), ODD.values(), ids=ODD)
def test_what_is_no_response_of_a_registry_is_one_sentence(
    said: bytes | None, words: str, tls: bool, make_store: Callable[..., RegistryStore]
) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(RawServer(*[[said]] * 2, tls=tls))
        store = make_store(host=server.host, plain_http=not tls, insecure=tls, retries=Retry(attempts=2, first=0.01))
        with pytest.raises(StoreError, match=words) as caught:
            store.fetch_manifest("v1")
    assert caught.value.hint
    assert "\n" not in str(caught.value)


def test_a_body_after_a_head_is_never_taken_for_what_was_asked_next(make_store: Callable[..., RegistryStore]) -> None:
    """Some servers send one; what the next request on the connection gets is then no response."""
    body = json.dumps({"schemaVersion": 2}).encode()
    good = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n" + b"x" * 10
    with RawServer([head + b"stay"], [good]) as server:
        store = make_store(host=server.host)
        store.has_blob(BLOB)
        assert store.fetch_manifest("v1")[1] == body


def test_every_error_is_one_of_ours(make_store: Callable[..., RegistryStore]) -> None:
    with RawServer(*[[b"\xff\xfe\r\n\r\n"]] * 9) as server:
        store = make_store(host=server.host, retries=Retry(attempts=1))
        for ask in (store.tags, store.is_new, lambda: store.has_blob(BLOB), lambda: store.read_blob(BLOB, 1 << 20)):
            with pytest.raises(OcibridgeError, match="no valid HTTP"):
                ask()
