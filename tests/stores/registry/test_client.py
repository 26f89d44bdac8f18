# SPDX-License-Identifier: Apache-2.0
"""The ORAS client on its own."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx
import pytest
import requests

from ocibridge.errors import FormatError, IntegrityError, OcibridgeError, StoreError, UsageError
from ocibridge.oci import MEDIA_TYPE_INDEX, Descriptor, Index
from ocibridge.stores.registry import RateLimits, RegistryClient, RegistryOptions, Retry
from ocibridge.stores.registry.http import Call

from .fault_server import FaultServer, Reply, Seen

DATA = b"some bytes of a blob"
BLOB = Descriptor.of(DATA, "application/octet-stream")
FAST = RegistryOptions(retries=Retry(attempts=2, first=0.01), username="u", password="geheim-42")


@pytest.fixture
def client(server: FaultServer) -> Iterator[RegistryClient]:
    with closing(RegistryClient(server.host, options=FAST)) as made:
        yield made


def test_download_is_verified_before_it_has_its_name(
    server: FaultServer, client: RegistryClient, tmp_path: Path
) -> None:
    path = f"/v2/r/blobs/{BLOB.digest}"
    server.on("HEAD", path, Reply(200, DATA))
    server.on("GET", path, Reply(200, DATA[::-1]))
    target = tmp_path / "sub" / "file"
    with pytest.raises(IntegrityError):
        client.download_blob(f"{server.host}/r", BLOB.digest, str(target))
    assert not list(target.parent.iterdir())
    server.on("GET", path, Reply(200, DATA))
    assert client.download_blob(f"{server.host}/r", BLOB.digest, str(target)) == str(target)
    assert target.read_bytes() == DATA


def test_index_is_uploaded_under_its_own_type(server: FaultServer, client: RegistryClient) -> None:
    server.on("PUT", "/v2/r/manifests/v1", Reply(201))
    data = Index(manifests=[BLOB]).to_json()
    client.upload_manifest(data, client.get_container(f"{server.host}/r:v1"))
    assert server.seen[0].body == data
    assert server.seen[0].headers["content-type"] == MEDIA_TYPE_INDEX
    for wrong in (b"[]", b"x"):
        with pytest.raises(FormatError):
            client.upload_manifest(wrong, f"{server.host}/r:v1")


def test_responses_are_those_of_requests(server: FaultServer, client: RegistryClient) -> None:
    server.on("GET", "/v2/x", Reply(404, b'{"errors":[]}', {"Link": '</y>; rel="next"'}))
    response = client.do_request(f"http://{server.host}/v2/x?n=1", headers={"Authorization": "Basic abc"})
    assert isinstance(response, requests.Response)
    assert (response.status_code, response.json(), response.reason) == (404, {"errors": []}, "Not Found")
    assert response.links["next"]["url"] == "/y"
    assert server.seen[0].path == "/v2/x?n=1"
    assert server.seen[0].authorization is None


def test_stream_that_breaks(server: FaultServer, client: RegistryClient) -> None:
    server.on("HEAD", f"/v2/r/blobs/{BLOB.digest}", Reply(200, DATA))
    server.on("GET", f"/v2/r/blobs/{BLOB.digest}", Reply(200, DATA, cut=5))
    with client.get_blob(f"{server.host}/r", BLOB.digest, stream=True) as response:
        with pytest.raises(OcibridgeError):
            list(response.iter_content(100))


def test_a_blob_that_is_not_there_is_a_response_like_any_other(server: FaultServer, client: RegistryClient) -> None:
    for stream in (False, True):
        with client.get_blob(f"{server.host}/r", BLOB.digest, stream=stream) as response:
            assert response.status_code == 404
            assert b"".join(response.iter_content(100)) == response.content == b""


@pytest.mark.parametrize("status", [403, 405, 501])
def test_a_blob_whose_head_is_not_to_be_had_is_pulled_all_the_same(
    status: int, server: FaultServer, client: RegistryClient, tmp_path: Path
) -> None:
    """As with addresses of storage that are signed for GET alone."""

    def get(seen: Seen) -> Reply:
        part = {"Content-Range": f"bytes 0-0/{len(DATA)}"}
        return Reply(206, DATA[:1], part) if seen.headers.get("range") == "bytes=0-0" else Reply(200, DATA)

    path = f"/v2/r/blobs/{BLOB.digest}"
    server.on("HEAD", path, Reply(status))
    server.on("GET", path, get)
    target = tmp_path / "file"
    client.download_blob(f"{server.host}/r", BLOB.digest, str(target))
    assert target.read_bytes() == client.get_blob(f"{server.host}/r", BLOB.digest).content == DATA


def test_layers_without_digest(server: FaultServer, client: RegistryClient, tmp_path: Path) -> None:
    for layer in ({}, {"digest": "sha256:x", "size": 1}, {"digest": BLOB.digest, "size": "many"}):
        with pytest.raises(UsageError):
            client.put_upload(str(tmp_path / "f"), f"{server.host}/r", layer)


def test_nothing_is_printed_or_logged(
    server: FaultServer, client: RegistryClient, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("GET", "/v2/r/tags/list", Reply(302, headers={"Location": f"{server.url}/z?signature=geheim-43"}))
    server.on("GET", "/z", Reply(401, headers={"WWW-Authenticate": "Basic realm=x"}), Reply(500))
    with caplog.at_level(logging.INFO), pytest.raises(StoreError):
        client.get_tags(f"{server.host}/r")
    assert "geheim" not in caplog.text
    assert capsys.readouterr() == ("", "")


def test_names() -> None:
    client = RegistryClient("docker.io")
    assert client._container_of(httpx.URL("https://registry-1.docker.io/v2/x")).registry == "docker.io"
    assert client._container_of(httpx.URL("https://ghcr.io/v2/x")).registry == "ghcr.io"
    assert client.container("localhost", "a/b").tags_url() == "localhost/v2/a/b/tags/list"
    assert client.container("[::1]:5000", "my.org/b").tags_url() == "[::1]:5000/v2/my.org/b/tags/list"
    assert client.host("ghcr.io").options.password is None


def test_a_stream_that_was_read_to_its_end_gives_its_permit_back(server: FaultServer) -> None:
    server.on("GET", "/v2/r/blobs/x", Reply(200, DATA))
    address = f"http://{server.host}/v2/r/blobs/x"
    limited = RegistryClient(server.host, options=RegistryOptions(rate_limits=RateLimits(concurrent=1)))
    with closing(limited), closing(limited.do_request(address, stream=True)) as first:
        assert first.content == DATA
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(limited.do_request, address).result(timeout=20).content == DATA


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_nobody_else_says_where_a_request_ends(server: FaultServer, client: RegistryClient, method: str) -> None:
    given = {"content-length": "3", "Transfer-Encoding": "chunked", "HOST": "elsewhere", "X-Other": "1"}
    host = client.host(client.hostname)
    server.on(method, "/v2/x", Reply(200))
    client.request(Call(host, method, "/v2/x", "x", "x", headers=given, body=b"hello" if method == "PUT" else None))
    (seen,) = server.seen
    length = {"content-length"} if method == "PUT" else set()
    assert seen.headers.keys() == {"host", "user-agent", "accept-encoding", "accept", "x-other"} | length
    assert seen.headers["host"] == host.name
    assert (seen.headers.get("content-length"), seen.body) == (("5", b"hello") if method == "PUT" else (None, b""))
