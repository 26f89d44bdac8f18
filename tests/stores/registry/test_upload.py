# SPDX-License-Identifier: Apache-2.0
"""Pushing to servers that misbehave."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from ocibridge.errors import AuthenticationError, IntegrityError, NetworkError, OcibridgeError, SourceError, StoreError
from ocibridge.io.content import BytesContent, FileContent
from ocibridge.oci import MEDIA_TYPE_MANIFEST, Descriptor
from ocibridge.stores.registry import RegistryStore

from .conftest import MakeStore
from .fault_server import FaultServer, Reply, Seen

DATA = hashlib.shake_128(b"data").digest(1_500_000)
BLOB = Descriptor.of(DATA, "application/octet-stream")
START = "/v2/r/blobs/uploads/"
SESSION = "/up/1"
STARTED = Reply(202, headers={"Location": f"{SESSION}?_state=a%2Bb%3D"})
CREATED = Reply(201, headers={"Docker-Content-Digest": BLOB.digest})


class Chunks:
    """The state of an upload in chunks; `limit` is the longest request body it takes, in bytes."""

    def __init__(self, server: FaultServer, limit: int = 1 << 30) -> None:
        self.data = b""
        self.limit = limit
        server.on("POST", START, self.start)
        server.on("PATCH", SESSION, self.patch)
        server.on("GET", SESSION, self.status)
        server.on("PUT", SESSION, self.put)

    def start(self, seen: Seen) -> Reply:
        self.data = b""
        return STARTED

    def patch(self, seen: Seen) -> Reply:
        start, end = map(int, seen.headers["content-range"].split("-"))
        if len(seen.body) > self.limit:
            return Reply(413)
        if start != len(self.data) or end - start + 1 != len(seen.body):
            return Reply(416)
        self.data += seen.body
        return self.status(seen, 202)

    def status(self, seen: Seen, status: int = 204) -> Reply:
        return Reply(status, headers={"Location": SESSION, "Range": f"0-{max(0, len(self.data) - 1)}"})

    def put(self, seen: Seen) -> Reply:
        if len(seen.body) > self.limit:
            return Reply(413)
        return CREATED if self.data + seen.body == DATA else Reply(400, b'{"errors":[{"code":"DIGEST_INVALID"}]}')


@pytest.fixture
def counted() -> list[int]:
    return []


def push(store: RegistryStore, counted: list[int]) -> None:
    store.push_blob(BLOB, BytesContent(DATA), counted.append)


def test_one_put(server: FaultServer, store: RegistryStore, counted: list[int]) -> None:
    server.on("POST", START, STARTED)
    server.on("PUT", SESSION, CREATED)
    push(store, counted)
    (put,) = server.requests("PUT")
    assert put.path == f"{SESSION}?_state=a%2Bb%3D&digest={BLOB.digest.replace(':', '%3A')}"
    assert put.headers["content-length"] == str(len(DATA))
    assert "transfer-encoding" not in put.headers
    assert put.body == DATA
    assert re.fullmatch(r"ocibridge/\S+", put.headers["user-agent"])
    assert sum(counted) == len(DATA)
    assert not server.requests("DELETE")


def test_204_is_success_and_202_is_only_with_proof(
    server: FaultServer, store: RegistryStore, counted: list[int]
) -> None:
    server.on("POST", START, STARTED)
    server.on("PUT", SESSION, Reply(204))
    push(store, counted)
    server.on("PUT", SESSION, Reply(202))
    with pytest.raises(StoreError, match="status 202"):
        push(store, counted)
    server.on("HEAD", f"/v2/r/blobs/{BLOB.digest}", Reply(200))
    push(store, counted)


def test_server_error_sends_the_blob_again(server: FaultServer, store: RegistryStore, counted: list[int]) -> None:
    server.on("POST", START, STARTED)
    server.on("PUT", SESSION, Reply(503), Reply(500), CREATED)
    push(store, counted)
    assert [put.body == DATA for put in server.requests("PUT")] == [True] * 3
    assert sum(counted) == len(DATA)
    assert min(counted) == -len(DATA)


def test_a_broken_connection_sends_the_blob_again(
    server: FaultServer, store: RegistryStore, counted: list[int]
) -> None:
    server.on("POST", START, STARTED)
    server.on("PUT", SESSION, Reply(0), CREATED)
    push(store, counted)
    assert sum(counted) == len(DATA)


def test_a_lost_response_is_asked_for(server: FaultServer, store: RegistryStore, counted: list[int]) -> None:
    server.on("POST", START, STARTED)
    server.on("PUT", SESSION, Reply(0))
    server.on("HEAD", f"/v2/r/blobs/{BLOB.digest}", Reply(200))
    push(store, counted)
    assert len(server.requests("PUT")) == 1


def test_failure_cancels_the_upload(server: FaultServer, store: RegistryStore, counted: list[int]) -> None:
    server.on("POST", START, STARTED)
    server.on("PUT", SESSION, Reply(0))
    with pytest.raises(NetworkError, match="r: pushing the blob"):
        push(store, counted)
    assert len(server.requests("PUT")) == 3
    assert len(server.requests("DELETE", SESSION)) == 3
    assert sum(counted) == 0


def test_expired_token_in_the_middle_of_a_put(server: FaultServer, make_store: MakeStore, counted: list[int]) -> None:
    tokens = iter("abcdef")
    server.on("GET", "/token", lambda seen: Reply(200, b'{"token":"t-%s"}' % next(tokens).encode()))
    bearer = {"WWW-Authenticate": f'Bearer realm="{server.url}/token",service="s",scope="repository:r:pull,push"'}
    server.on("POST", START, Reply(401, headers=bearer), STARTED)
    server.on("PUT", SESSION, Reply(401, headers=bearer, early=True), CREATED)
    push(make_store(), counted)
    assert [seen.authorization for seen in server.requests("PUT")] == ["Bearer t-a", "Bearer t-b"]
    assert server.requests("PUT")[-1].body == DATA
    assert sum(counted) == len(DATA)


def test_413_goes_on_in_chunks(server: FaultServer, store: RegistryStore, counted: list[int]) -> None:
    upload = Chunks(server, limit=300_000)
    push(store, counted)
    assert upload.data == DATA
    assert sum(counted) == len(DATA)


def test_least_chunk_is_honoured(server: FaultServer, store: RegistryStore, counted: list[int]) -> None:
    upload = Chunks(server, limit=1_000_000)
    server.on("POST", START, Reply(202, headers={"Location": SESSION, "OCI-Chunk-Min-Length": "900000"}))
    push(store, counted)
    assert [len(seen.body) for seen in server.requests("PATCH")] == [900_000, 600_000]
    assert upload.data == DATA


def test_413_for_every_size(server: FaultServer, store: RegistryStore, counted: list[int]) -> None:
    Chunks(server, limit=1000)
    with pytest.raises(StoreError, match=r"413.*limits the size of a request"):
        push(store, counted)
    assert sum(counted) == 0


def test_chunk_is_taken_up_where_the_registry_says(
    server: FaultServer, store: RegistryStore, counted: list[int]
) -> None:
    upload = Chunks(server)

    def keep_a_part_and_fail(seen: Seen) -> Reply:
        upload.data += seen.body[:1000]
        return Reply(503)

    server.on("PATCH", SESSION, upload.patch, keep_a_part_and_fail, Reply(416), upload.patch)
    store.client.push_blob(store.container, BLOB, BytesContent(DATA), counted.append, chunk=500_000)
    assert upload.data == DATA
    assert sum(counted) == len(DATA)
    assert len(server.requests("POST")) == 1


def test_lost_session_starts_the_blob_again(server: FaultServer, store: RegistryStore, counted: list[int]) -> None:
    upload = Chunks(server)
    server.on("PATCH", SESSION, upload.patch, Reply(0), upload.patch)
    server.on("GET", SESSION, Reply(404))
    store.client.push_blob(store.container, BLOB, BytesContent(DATA), counted.append, chunk=500_000)
    assert upload.data == DATA
    assert len(server.requests("POST")) == 2
    assert sum(counted) == len(DATA)


@pytest.mark.parametrize("chunk", [None, 500_000])
def test_a_session_that_is_lost_when_it_is_closed(
    server: FaultServer, store: RegistryStore, counted: list[int], chunk: int | None
) -> None:
    upload = Chunks(server)
    server.on("PUT", SESSION, Reply(404, b'{"errors":[{"code":"BLOB_UPLOAD_UNKNOWN"}]}'), upload.put)
    store.client.push_blob(store.container, BLOB, BytesContent(DATA), counted.append, chunk=chunk)
    assert len(server.requests("POST")) == 2
    assert sum(counted) == len(DATA)


def test_416_for_ever_ends(server: FaultServer, store: RegistryStore, counted: list[int]) -> None:
    Chunks(server)
    server.on("PATCH", SESSION, Reply(416))
    with pytest.raises(StoreError, match="416"):
        store.client.push_blob(store.container, BLOB, BytesContent(DATA), counted.append, chunk=500_000)


def test_ecr_says_201_and_a_range_that_stands_still(
    server: FaultServer, store: RegistryStore, counted: list[int]
) -> None:
    server.on("POST", START, STARTED)
    server.on("PATCH", SESSION, Reply(201, headers={"Location": SESSION, "Range": "0-499999"}))
    server.on("PUT", SESSION, CREATED)
    store.client.push_blob(store.container, BLOB, BytesContent(DATA), counted.append, chunk=500_000)
    assert b"".join(seen.body for seen in server.requests("PATCH")) == DATA


def test_foreign_location_gets_no_credentials(
    server: FaultServer, other: FaultServer, make_store: MakeStore, counted: list[int]
) -> None:
    basic = Reply(401, headers={"WWW-Authenticate": "Basic realm=x"})
    server.on("POST", START, basic, Reply(202, headers={"Location": f"{other.url}{SESSION}?sig=s"}))
    other.on("PUT", SESSION, Reply(401, headers={"WWW-Authenticate": "Basic realm=x"}))
    with pytest.raises(OcibridgeError) as caught:
        push(make_store(username="u", password="geheim"), counted)
    assert server.requests("POST")[-1].authorization
    assert {seen.method for seen in other.seen} == {"PUT", "DELETE"}
    assert all(seen.authorization is None for seen in other.seen)
    assert "geheim" not in str(caught.value)
    assert "sig" not in str(caught.value)


@pytest.mark.parametrize("headers", [{}, {"Location": "http://[x/"}])
def test_no_location(server: FaultServer, store: RegistryStore, counted: list[int], headers: dict[str, str]) -> None:
    server.on("POST", START, Reply(202, headers=headers))
    with pytest.raises(StoreError, match="no upload address"):
        push(store, counted)


def test_source_that_changes(server: FaultServer, store: RegistryStore, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(DATA)
    content = FileContent(path)
    path.write_bytes(DATA[:1000])
    server.on("POST", START, STARTED)
    with pytest.raises(SourceError, match="became shorter"):
        store.push_blob(BLOB, content)

    class Longer(BytesContent):
        size = len(DATA)

    for wrong in (DATA + b"?", DATA[:-1]):
        with pytest.raises(IntegrityError, match="changed its size"):
            store.push_blob(BLOB, Longer(wrong))


def test_registry_that_stores_something_else(server: FaultServer, store: RegistryStore, counted: list[int]) -> None:
    wrong = {"Docker-Content-Digest": Descriptor.of(b"", "x").digest}
    server.on("POST", START, STARTED)
    server.on("PUT", SESSION, Reply(201, headers=wrong))
    with pytest.raises(IntegrityError, match="another digest"):
        push(store, counted)
    server.on("PUT", "/v2/r/manifests/v1", Reply(201, headers=wrong))
    with pytest.raises(IntegrityError, match="digest that the registry announces"):
        store.push_manifest(b"{}", MEDIA_TYPE_MANIFEST, "v1")


def test_has_blob_compares_the_size(server: FaultServer, store: RegistryStore) -> None:
    path = f"/v2/r/blobs/{BLOB.digest}"
    for length, expected in ((str(len(DATA)), True), ("5", False)):
        server.on("HEAD", path, Reply(200, headers={"Content-Length": length}))
        assert store.has_blob(BLOB) is expected


@pytest.mark.parametrize("status", [403, 405, 501])
def test_where_head_does_not_tell_the_first_byte_does(server: FaultServer, store: RegistryStore, status: int) -> None:
    path = f"/v2/r/blobs/{BLOB.digest}"
    server.on("HEAD", path, Reply(status))
    server.on("GET", path, Reply(status))
    assert not store.has_blob(BLOB)
    server.on("GET", path, Reply(206, DATA[:1], {"Content-Range": f"bytes 0-0/{len(DATA)}"}))
    assert store.has_blob(BLOB)
    # A host that does not know HEAD at all is not asked by it again; one that forbids it here may allow it elsewhere.
    assert len(server.requests("HEAD")) == (2 if status == 403 else 1)


def test_an_upload_that_is_forbidden_says_so_although_looking_did_not(
    server: FaultServer, store: RegistryStore, counted: list[int]
) -> None:
    for method in ("HEAD", "GET"):
        server.on(method, f"/v2/r/blobs/{BLOB.digest}", Reply(403))
    server.on("POST", START, Reply(403))
    assert not store.has_blob(BLOB)
    with pytest.raises(AuthenticationError, match="pushing the blob"):
        push(store, counted)


def test_mount_that_starts_an_upload_is_cancelled(server: FaultServer, make_store: MakeStore) -> None:
    server.on("POST", START, STARTED)
    assert not make_store().mount_blob(BLOB, make_store("other/repo"))
    assert "from=other%2Frepo" in server.requests("POST")[0].path
    assert len(server.requests("DELETE", SESSION)) == 1
    server.on("POST", START, Reply(405))
    assert not make_store().mount_blob(BLOB, make_store("other/repo"))
