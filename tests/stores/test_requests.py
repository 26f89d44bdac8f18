# SPDX-License-Identifier: Apache-2.0
"""What is sent, through a proxy or without one, and what is logged of it."""

from __future__ import annotations

import gzip
import logging

import pytest

from ocibridge.errors import NetworkError
from ocibridge.io.content import BytesContent
from ocibridge.io.readers import chunks
from ocibridge.oci import Descriptor, sha256_digest
from ocibridge.stores.registry import Hosts, RegistryOptions, Retry

from .asked import BLOB, DATA, MANIFEST, PATH, Elsewhere, Make, make, other, server, store_for
from .registry.fault_server import FaultServer, Reply, Seen

__all__ = ["make", "other", "server"]


def test_a_proxy_of_the_environment_is_used(
    server: FaultServer, make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("http_proxy", server.url)
    server.on("HEAD", f"http://registry.example{PATH}", Reply(200, DATA, headers={"Set-Cookie": "a=b"}))
    with Hosts() as hosts, caplog.at_level(logging.INFO, "httpx"):
        store = store_for("registry.example", RegistryOptions(plain_http=True), hosts)
        assert store.has_blob(BLOB)
        assert store.has_blob(BLOB)
        # The machine itself is never asked through a proxy.
        assert make().has_blob(BLOB)
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
        store = store_for("registry.example", options, hosts)
        store.push_blob(blob, BytesContent(data))
        with store.resume_blob(blob, 0) as reader:
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
    assert put[0].endswith('/v2/r/blobs/uploads/1 "HTTP/1.1 201 Created"')


def test_what_a_request_says(server: FaultServer, make: Make) -> None:
    store = make()
    client, container = store.client, store.container
    client.request(client.call(container, "GET", "manifests/v1", "x", headers={"accept": "text/x"}))
    client.request(client.call(container, "POST", "blobs/uploads/", "x"), accept=(202,))
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
    data = b" " * (size - 1) + b"1"
    make().push_manifest(data, "application/json", "v1")
    assert [seen.body for seen in server.requests("PUT")] == [data] * 2


@pytest.mark.parametrize("coding", ["gz\xefp", "unheard-of"])
def test_an_encoding_that_nobody_knows_is_no_crash(coding: str, server: FaultServer, make: Make) -> None:
    server.on("GET", "/v2/r/tags/list", Reply(200, b'{"tags":["v1"]}', {"Content-Encoding": coding}))
    assert make().is_new() is False


@pytest.mark.parametrize("proxied", [False, True])
@pytest.mark.parametrize(
    "value", ["text/\u00e9", "text/x\r\nEvil: 1", "a\nEvil: 1", "a\rb", "a\0b", "\u010d\u010aEvil: 1"]
)
def test_what_cannot_be_sent_is_not_blamed_on_the_host(
    value: str, proxied: bool, server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", server.url)
    name = "registry.example" if proxied else server.host
    with Hosts() as hosts:
        store = store_for(name, RegistryOptions(plain_http=True), hosts)
        call = store.client.call(store.container, "GET", "manifests/v1", "x", headers={"Accept": value})
        with pytest.raises(NetworkError, match="would not be a valid one"):
            store.client.request(call)
    assert server.seen == []


def test_the_host_that_breaks_a_body_is_named(server: FaultServer, other: FaultServer, make: Make) -> None:
    challenge = {"WWW-Authenticate": f'Bearer realm="{other.url}/token"'}
    server.on("GET", MANIFEST, Reply(401, headers=challenge))
    other.on("GET", "/token", Reply(200, b'{"token":"t"}' * 100, cut=5))
    with pytest.raises(NetworkError, match=f"{other.host} broke the connection"):
        make().fetch_manifest("v1")
