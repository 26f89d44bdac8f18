# SPDX-License-Identifier: Apache-2.0
"""What httpx does around its connections, and we do ourselves."""

from __future__ import annotations

import gzip
import logging
import threading
from collections import deque
from typing import Any

import pytest

from ocibridge.content import BytesContent, chunks
from ocibridge.errors import NetworkError
from ocibridge.oci import Descriptor, sha256_digest
from ocibridge.stores.registry.hosts import Hosts
from ocibridge.stores.registry.http import Host
from ocibridge.stores.registry.options import RegistryOptions, Retry
from ocibridge.stores.registry.repository import Repository

from .asked import BLOB, DATA, MANIFEST, PATH, Elsewhere, Make, make, other, server
from .registry.fault_server import FaultServer, Reply, Seen

__all__ = ["make", "other", "server"]


def test_a_proxy_of_the_environment_is_used(
    server: FaultServer, make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("http_proxy", server.url)
    server.on("HEAD", f"http://registry.example{PATH}", Reply(200, DATA, headers={"Set-Cookie": "a=b"}))
    host = Host("registry.example", RegistryOptions(plain_http=True))
    try:
        repository = Repository(host, "r")
        with caplog.at_level(logging.INFO, "httpx"):
            assert repository.has_blob(BLOB)
            assert repository.has_blob(BLOB)
            # The machine itself is never asked through a proxy.
            assert make().has_blob(BLOB)
    finally:
        host.close()
    ours = f"http://registry.example{PATH}"
    assert [seen.path for seen in server.seen] == [ours, ours, PATH]
    assert all(seen.headers["host"] == "registry.example" and "cookie" not in seen.headers for seen in server.seen[:2])


def test_blobs_go_through_a_proxy_in_both_directions(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("http_proxy", server.url)
    data = bytes(range(256)) * 2000
    blob = Descriptor(media_type="application/octet-stream", digest=sha256_digest(data), size=len(data))
    blobs = "http://registry.example/v2/r/blobs"

    def rest(seen: Seen) -> Reply:
        start = int(seen.headers["range"].removeprefix("bytes=").removesuffix("-"))
        return Reply(206, data[start:], {"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"})

    server.on("POST", f"{blobs}/uploads/", Reply(202, headers={"Location": "/v2/r/blobs/uploads/1?secret=geheim"}))
    challenge = {"WWW-Authenticate": "Basic realm=x"}
    server.on("PUT", f"{blobs}/uploads/1", Reply(401, headers=challenge), Reply(201))
    server.on("GET", f"{blobs}/{blob.digest}", Reply(200, data, cut=100_000), rest)
    options = RegistryOptions(plain_http=True, username="u", password="p", retries=Retry(first=0.001))
    with Hosts() as hosts, caplog.at_level(logging.INFO, "httpx"):
        repository = Repository(hosts.get("registry.example", options), "r")
        repository.push_blob(blob, BytesContent(data))
        with repository.open_blob(blob) as reader:
            assert b"".join(bytes(piece) for piece in chunks(reader)) == data
    refused, taken = server.requests("PUT")
    assert refused.body == taken.body == data
    assert taken.headers["content-length"] == str(len(data))
    assert [seen.headers.get("authorization") is None for seen in (refused, taken)] == [True, False]
    assert "PUT" in caplog.text
    assert "geheim" not in caplog.text


def test_requests_are_logged_without_their_query(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "httpx"):
        make().push_blob(BLOB, Elsewhere(make()))
    put = [record.getMessage() for record in caplog.records if "PUT" in record.getMessage()]
    assert len(put) == 1
    assert put[0].endswith('/v2/r/blobs/uploads/1 "201"')


def test_what_a_request_says(server: FaultServer, make: Make) -> None:
    repository = make()
    repository.host.request(repository.call("GET", "manifests/v1", "x", headers={"accept": "text/x"}))
    repository.host.request(repository.call("POST", "blobs/uploads/", "x"), accept=(202,))
    get, post = (seen.headers for seen in server.seen)
    assert get.pop("user-agent") == post.pop("user-agent")
    assert get.pop("host") == post.pop("host") == server.host
    assert get == {"accept": "text/x", "accept-encoding": "identity"}
    assert post == {"accept": "*/*", "accept-encoding": "identity", "content-length": "0"}


def test_an_encoded_answer_is_read(server: FaultServer, make: Make) -> None:
    server.on("GET", "/v2/r/tags/list", Reply(200, gzip.compress(b'{"tags":["v1"]}'), {"Content-Encoding": "gzip"}))
    assert make().is_new() is False


@pytest.mark.parametrize("size", [1, 16 << 10, (16 << 10) + 1, 300_000])
def test_a_body_is_sent_again_after_a_refusal(size: int, server: FaultServer, make: Make) -> None:
    challenge = {"WWW-Authenticate": f'Bearer realm="{server.url}/token"'}
    server.on("PUT", MANIFEST, Reply(401, b"no", headers=challenge), Reply(201))
    server.on("GET", "/token", Reply(200, b'{"token":"t"}'))
    make().put_manifest(b"x" * size, "application/json", "v1")
    assert [seen.body for seen in server.requests("PUT")] == [b"x" * size] * 2


@pytest.mark.parametrize("coding", ["gz\xefp", "unheard-of"])
def test_an_encoding_that_nobody_knows_is_no_crash(coding: str, server: FaultServer, make: Make) -> None:
    server.on("GET", "/v2/r/tags/list", Reply(200, b'{"tags":["v1"]}', {"Content-Encoding": coding}))
    assert make().is_new() is False


@pytest.mark.parametrize("proxied", [False, True])
@pytest.mark.parametrize("value", ["text/\u00e9", "text/x\r\nEvil: 1"])
def test_what_cannot_be_sent_is_not_blamed_on_the_host(
    value: str, proxied: bool, server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", server.url)
    name = "registry.example" if proxied else server.host
    with Hosts() as hosts:
        repository = Repository(hosts.get(name, RegistryOptions(plain_http=True)), "r")
        call = repository.call("GET", "manifests/v1", "x", headers={"Accept": value})
        with pytest.raises(NetworkError, match="would not be a valid one"):
            repository.host.request(call)
    assert server.seen == []


def test_the_host_that_breaks_a_body_is_named(server: FaultServer, other: FaultServer, make: Make) -> None:
    challenge = {"WWW-Authenticate": f'Bearer realm="{other.url}/token"'}
    server.on("GET", MANIFEST, Reply(401, headers=challenge))
    other.on("GET", "/token", Reply(200, b'{"token":"t"}' * 100, cut=5))
    with pytest.raises(NetworkError, match=f"{other.host} broke the connection"):
        make().get_manifest("v1")


def test_lines_may_come_while_all_are_interrupted(make: Make) -> None:
    class Stream:
        def get_extra_info(self, name: str, /) -> Any:
            raise OSError

    host, made, stop = make().host, deque[Stream](maxlen=50), threading.Event()

    def connect() -> None:
        while not stop.is_set():
            made.append(Stream())
            host._connected(made[-1], 1.0)

    thread = threading.Thread(target=connect)
    thread.start()
    try:
        for _ in range(300):
            host.interrupt()
    finally:
        stop.set()
        thread.join()
