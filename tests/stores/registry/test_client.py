# SPDX-License-Identifier: Apache-2.0
"""The ORAS client on its own."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
import requests

from ocibridge.errors import FormatError, IntegrityError, OcibridgeError, StoreError, UsageError
from ocibridge.oci import MEDIA_TYPE_INDEX, Descriptor, Index
from ocibridge.stores.registry import RegistryOptions, Retry
from ocibridge.stores.registry.client import OrasRegistry
from ocibridge.stores.registry.http import Call
from ocibridge.stores.registry.options import Manners

from .fault_server import FaultServer, Reply

DATA = b"some bytes of a blob"
BLOB = Descriptor.of(DATA, "application/octet-stream")
FAST = RegistryOptions(retries=Retry(attempts=2, first=0.01), username="u", password="geheim-42")


@pytest.fixture
def client(server: FaultServer) -> OrasRegistry:
    return OrasRegistry(server.host, FAST)


def test_download_is_verified_before_it_has_its_name(server: FaultServer, client: OrasRegistry, tmp_path: Path) -> None:
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
    client.close()


def test_index_is_uploaded_under_its_own_type(server: FaultServer, client: OrasRegistry) -> None:
    server.on("PUT", "/v2/r/manifests/v1", Reply(201))
    data = Index(manifests=[BLOB]).to_json()
    client.upload_manifest(data, client.get_container(f"{server.host}/r:v1"))
    assert server.seen[0].body == data
    assert server.seen[0].headers["content-type"] == MEDIA_TYPE_INDEX
    for wrong in (b"[]", b"x"):
        with pytest.raises(FormatError):
            client.upload_manifest(wrong, f"{server.host}/r:v1")
    client.close()


def test_answers_are_those_of_requests(server: FaultServer, client: OrasRegistry) -> None:
    server.on("GET", "/v2/x", Reply(404, b'{"errors":[]}', {"Link": '</y>; rel="next"'}))
    response = client.do_request(f"http://{server.host}/v2/x?n=1", headers={"Authorization": "Basic abc"})
    assert isinstance(response, requests.Response)
    assert (response.status_code, response.json(), response.reason) == (404, {"errors": []}, "Not Found")
    assert response.links["next"]["url"] == "/y"
    assert server.seen[0].path == "/v2/x?n=1"
    assert server.seen[0].authorization is None
    client.close()


def test_stream_that_breaks(server: FaultServer, client: OrasRegistry) -> None:
    server.on("GET", f"/v2/r/blobs/{BLOB.digest}", Reply(200, DATA, cut=5))
    with client.get_blob(f"{server.host}/r", BLOB.digest, stream=True) as response:
        with pytest.raises(OcibridgeError):
            list(response.iter_content(100))
    client.close()


def test_layers_without_digest(server: FaultServer, client: OrasRegistry, tmp_path: Path) -> None:
    for layer in ({}, {"digest": "sha256:x", "size": 1}, {"digest": BLOB.digest, "size": "many"}):
        with pytest.raises(UsageError):
            client.put_upload(str(tmp_path / "f"), f"{server.host}/r", layer)
    client.close()


def test_nothing_is_printed_or_logged(
    server: FaultServer, client: OrasRegistry, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("GET", "/v2/r/tags/list", Reply(302, headers={"Location": f"{server.url}/z?signature=geheim-43"}))
    server.on("GET", "/z", Reply(401, headers={"WWW-Authenticate": "Basic realm=x"}), Reply(500))
    with caplog.at_level(logging.INFO), pytest.raises(StoreError):
        client.get_tags(f"{server.host}/r")
    assert "geheim" not in caplog.text
    assert capsys.readouterr() == ("", "")
    client.close()


def test_names() -> None:
    client = OrasRegistry("docker.io")
    assert client._registry_of(httpx.URL("https://registry-1.docker.io/v2/x")) == "docker.io"
    assert client._registry_of(httpx.URL("https://ghcr.io/v2/x")) == "ghcr.io"
    assert client.container("localhost", "a/b").tags_url() == "localhost/v2/a/b/tags/list"
    assert client.container("[::1]:5000", "my.org/b").tags_url() == "[::1]:5000/v2/my.org/b/tags/list"
    assert client.host("ghcr.io").options.password is None
    client.close()


def test_a_stream_that_was_read_to_its_end_gives_its_turn_back(server: FaultServer) -> None:
    server.on("GET", "/v2/r/blobs/x", Reply(200, DATA))
    address = f"http://{server.host}/v2/r/blobs/x"
    polite = OrasRegistry(server.host, RegistryOptions(manners=Manners(concurrent=1)))
    first = polite.do_request(address, stream=True)
    assert first.content == DATA
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(polite.do_request, address).result(timeout=20).content == DATA
    first.close()
    polite.close()


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_nobody_else_says_where_a_request_ends(client: OrasRegistry, method: str) -> None:
    given = {"content-length": "3", "Transfer-Encoding": "chunked", "HOST": "elsewhere", "X-Other": "1"}
    host = client.host(client.hostname)
    call = Call(method, "/v2/x", "x", "x", headers=given, body=b"hello" if method == "PUT" else None)
    request = host._request(call, host.site, "/v2/x")
    assert request.headers.keys() == {"Host", "User-Agent", "Accept-Encoding", "Accept", "X-Other"}
    assert request.headers["Host"] == host.name
    assert request.length == (5 if method == "PUT" else None)
    client.close()
