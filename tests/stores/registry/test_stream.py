# SPDX-License-Identifier: Apache-2.0
"""Blobs that are hashed while they are sent, and uploads that outlive their process, to servers that misbehave."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ocibridge.content import BytesContent, Content, Reader
from ocibridge.errors import IntegrityError, NetworkError, SourceError, StoreError
from ocibridge.layers import Encoding, Layer, OnePass
from ocibridge.model import ModelFile, Role
from ocibridge.oci import Descriptor
from ocibridge.settings import MiB
from ocibridge.stores.registry import RegistryStore, repository, stream

from .conftest import MakeStore
from .fault_server import FaultServer, Reply, Seen

DATA = hashlib.shake_128(b"data").digest(1_500_000)
BLOB = Descriptor.of(DATA, "application/octet-stream")
START = "/v2/r/blobs/uploads/"
SESSION = "/up/1"


class Uploads:
    """A registry that takes streams and chunks, and keeps what arrived of a PATCH that fails."""

    def __init__(self, server: FaultServer, data: bytes = DATA) -> None:
        self.data = b""
        self.expected = data
        self.keeps = 0
        self.failure: Reply | None = None
        self.stopped = threading.Event()
        server.on("POST", START, self.start)
        server.on("PATCH", SESSION, self.patch)
        server.on("GET", SESSION, self.status)
        server.on("PUT", SESSION, self.put)

    def start(self, seen: Seen) -> Reply:
        self.data = b""
        return Reply(202, headers={"Location": SESSION})

    def patch(self, seen: Seen) -> Reply:
        if self.cut(seen):
            return Reply(0)
        if place := seen.headers.get("content-range"):
            assert place == f"{len(self.data)}-{len(self.data) + len(seen.body) - 1}"
        failure, self.failure = self.failure, None
        self.data += seen.body if failure is None else seen.body[: self.keeps]
        return failure or self.status(seen, 202)

    def status(self, seen: Seen, status: int = 204) -> Reply:
        return Reply(status, headers={"Location": SESSION, "Range": f"0-{max(0, len(self.data) - 1)}"})

    def cut(self, seen: Seen) -> bool:
        """Whether the other side went away in the middle of a body."""
        if len(seen.body) == int(seen.headers["content-length"]):
            return False
        self.stopped.set()
        return True

    def put(self, seen: Seen) -> Reply:
        if self.cut(seen):
            return Reply(0)
        failure, self.failure = self.failure, None
        if failure:
            self.data += seen.body[: self.keeps]
            return failure
        self.data += seen.body
        right = self.data == self.expected
        return Reply(201) if right else Reply(400, b'{"errors":[{"code":"DIGEST_INVALID"}]}')


@pytest.fixture(autouse=True)
def forgiving(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repository, "LEAST", 1000)


@pytest.fixture
def counted() -> list[int]:
    return []


@pytest.fixture
def noting(make_store: MakeStore, tmp_path: Path) -> Callable[[], RegistryStore]:
    """Makes stores that keep notes; each stands for another process."""

    def make() -> RegistryStore:
        store = make_store()
        store.notes = tmp_path / "notes"
        return store

    return make


def notes(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "notes" / "uploads").iterdir())


@pytest.fixture
def reading() -> Iterator[OnePass]:
    with OnePass(layer(BytesContent(DATA))) as opened:
        yield opened


def layer(content: Content, encoding: Encoding = Encoding.RAW, sha256: str | None = None) -> Layer:
    return Layer((ModelFile("w", Role.WEIGHT, content, sha256),), encoding)


def test_one_patch_and_an_empty_put(
    server: FaultServer, store: RegistryStore, reading: OnePass, counted: list[int]
) -> None:
    upload = Uploads(server)
    assert store.stream_blob(reading, None, counted.append)
    assert upload.data == DATA
    assert reading.finish().digest == BLOB.digest
    (patch,) = server.requests("PATCH")
    assert patch.headers["content-length"] == str(len(DATA))
    assert not {"content-range", "transfer-encoding"} & patch.headers.keys()
    (put,) = server.requests("PUT")
    assert put.path == f"{SESSION}?digest={BLOB.digest.replace(':', '%3A')}"
    assert put.headers["content-length"] == "0"
    assert sum(counted) == len(DATA)


def test_a_compressed_layer_goes_in_chunks(
    server: FaultServer, store: RegistryStore, counted: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "CHUNK", 400_000)
    made = layer(BytesContent(DATA), Encoding.TAR_ZSTD)
    with OnePass(made) as first:
        size = first.finish().size
    with made.content(size).open() as reader:
        blob = reader.readall()
    upload = Uploads(server, blob)
    with OnePass(made) as again:
        assert store.stream_blob(again, None, counted.append)
    assert upload.data == blob
    *chunks, last = [len(seen.body) for seen in server.requests("PATCH")]
    assert len(chunks) >= 1
    assert all(400_000 <= chunk < 400_000 + MiB for chunk in chunks)
    assert last > 0
    assert sum(counted) == size


@pytest.mark.parametrize("status", [400, 404, 405, 411, 413, 416, 500, 502, 503, 0])
def test_what_is_refused_is_pushed_with_its_digest(
    server: FaultServer, store: RegistryStore, reading: OnePass, counted: list[int], status: int
) -> None:
    upload = Uploads(server)
    upload.failure = Reply(status)
    assert not store.stream_blob(reading, None, counted.append)
    assert sum(counted) == 0
    assert len(server.requests("DELETE", SESSION)) == 1
    assert reading.finish().digest == BLOB.digest
    store.push_blob(BLOB, BytesContent(DATA), counted.append)
    assert upload.data == DATA
    assert sum(counted) == len(DATA)
    with OnePass(layer(BytesContent(DATA))) as another:
        assert not store.stream_blob(another, None)
    assert len(server.requests("PATCH")) == 1
    assert not store.streams()


def test_an_early_refusal(server: FaultServer, store: RegistryStore, counted: list[int]) -> None:
    Uploads(server)
    server.on("PATCH", SESSION, Reply(413, early=True))
    with OnePass(layer(BytesContent(bytes(40 * MiB)))) as reading:
        assert not store.stream_blob(reading, None, counted.append)
        assert reading.finish().size == 40 * MiB
    assert sum(counted) == 0


def test_a_stream_that_would_have_to_be_sent_again(
    server: FaultServer, make_store: MakeStore, reading: OnePass, counted: list[int]
) -> None:
    tokens = iter("abcdef")
    server.on("GET", "/token", lambda seen: Reply(200, b'{"token":"t-%s"}' % next(tokens).encode()))
    bearer = {"WWW-Authenticate": f'Bearer realm="{server.url}/token",service="s",scope="repository:r:pull,push"'}
    Uploads(server)
    server.on("PATCH", SESSION, Reply(401, headers=bearer))
    assert not make_store().stream_blob(reading, None, counted.append)
    assert sum(counted) == 0
    assert reading.finish().digest == BLOB.digest


def test_a_refused_digest_is_no_success(server: FaultServer, store: RegistryStore, reading: OnePass) -> None:
    Uploads(server, b"what the line made of it")
    assert not store.stream_blob(reading, None)


@pytest.mark.parametrize("size", [len(DATA) - 1, len(DATA) + 1])
def test_a_source_that_changes_its_size(
    server: FaultServer, store: RegistryStore, counted: list[int], size: int
) -> None:
    class Lying(BytesContent):
        size = len(DATA)

    Uploads(server)
    with (
        OnePass(layer(Lying(DATA[:size] + b"x" * (size - len(DATA))))) as reading,
        pytest.raises((SourceError, IntegrityError), match=r"its size|were announced"),
    ):
        store.stream_blob(reading, None, counted.append)
    assert sum(counted) == 0
    assert not server.requests("PUT")
    assert len(server.requests("DELETE", SESSION)) == 1


def test_a_broken_promise_closes_nothing(server: FaultServer, store: RegistryStore, counted: list[int]) -> None:
    Uploads(server)
    with (
        OnePass(layer(BytesContent(DATA), Encoding.TAR, "0" * 64)) as reading,
        pytest.raises(IntegrityError, match="its format promises"),
    ):
        store.stream_blob(reading, None, counted.append)
    assert sum(counted) == 0
    assert not server.requests("PUT")
    assert len(server.requests("DELETE", SESSION)) == 1


def test_only_new_repositories_of_hosts_that_take_it_are_streamed_to(
    server: FaultServer, make_store: MakeStore
) -> None:
    store = make_store()
    for answer, expected in (
        (Reply(404), True),
        (Reply(200, b'{"name":"r","tags":null}'), True),
        (Reply(200, b'{"name":"r","tags":[]}'), True),
        (Reply(200, b'{"name":"r","tags":["v1"]}'), False),
        (Reply(200, b'{"name":"r"}'), False),
        (Reply(200, b"<html>"), False),
        (Reply(403), False),
    ):
        server.on("GET", "/v2/r/tags/list", answer)
        assert store.streams() is expected
    for host in ("ghcr.io", "europe-docker.pkg.dev", "eu.gcr.io", "gcr.io", "1.dkr.ecr.eu-west-1.amazonaws.com"):
        assert not make_store(host=host).streams()


# Going on where another process was stopped.


class Stopped(BaseException):
    """What a process that is killed looks like from inside: nothing is cleaned up."""


class Stopping(BytesContent):
    """Ends the process at some byte."""

    def open(self, offset: int = 0) -> Reader:
        reader = super().open(offset)

        class Until(Reader):
            left = 600_000

            def readable(self) -> bool:
                return True

            def readinto(self, buffer: object, /) -> int:
                if self.left <= 0:
                    raise Stopped
                target = memoryview(buffer)[: self.left]  # type: ignore[arg-type]
                count = reader.readinto(target) or 0
                self.left -= count
                return count

        return Until()


def stop_push(store: RegistryStore, upload: Uploads) -> None:
    with pytest.raises(Stopped):
        store.push_blob(BLOB, Stopping(DATA))
    assert upload.stopped.wait(30)


def test_a_push_goes_on_where_another_was_stopped(
    server: FaultServer, noting: Callable[[], RegistryStore], counted: list[int], tmp_path: Path
) -> None:
    upload = Uploads(server)
    stop_push(noting(), upload)
    assert not server.requests("DELETE")
    upload.data = DATA[:500_000]
    noting().push_blob(BLOB, BytesContent(DATA), counted.append)
    assert upload.data == DATA
    assert [len(seen.body) for seen in server.requests("PATCH")] == [1_000_000]
    assert len(server.requests("POST")) == 1
    assert sum(counted) == len(DATA)
    assert notes(tmp_path) == []


@pytest.mark.parametrize("kept", [500_000, 1_048_576, len(DATA) - 1, len(DATA)])
def test_a_stream_goes_on_where_another_was_stopped(
    server: FaultServer, noting: Callable[[], RegistryStore], counted: list[int], tmp_path: Path, kept: int
) -> None:
    upload = Uploads(server)
    with OnePass(layer(Stopping(DATA))) as reading, pytest.raises(Stopped):
        noting().stream_blob(reading, "key")
    assert upload.stopped.wait(30)
    assert not server.requests("DELETE")
    upload.data = DATA[:kept]
    with OnePass(layer(BytesContent(DATA))) as reading:
        assert noting().stream_blob(reading, "key", counted.append)
        assert reading.finish().digest == BLOB.digest
    assert upload.data == DATA
    assert [len(seen.body) for seen in server.requests("PATCH")[1:]] == [len(DATA) - kept] * (kept < len(DATA))
    assert len(server.requests("POST")) == 1
    assert sum(counted) == len(DATA)
    assert notes(tmp_path) == []


def test_a_stream_whose_line_broke_goes_on_with_its_digest(
    server: FaultServer, noting: Callable[[], RegistryStore], reading: OnePass, counted: list[int], tmp_path: Path
) -> None:
    upload = Uploads(server)
    upload.keeps, upload.failure = 700_000, Reply(0)
    store = noting()
    assert not store.stream_blob(reading, "key", counted.append)
    assert sum(counted) == 0
    store.push_blob(BLOB, BytesContent(DATA), counted.append)
    assert upload.data == DATA
    assert len(server.requests("POST")) == 1
    assert sum(counted) == len(DATA)
    assert notes(tmp_path) == []


def test_a_put_whose_line_broke_goes_on(
    server: FaultServer, noting: Callable[[], RegistryStore], counted: list[int]
) -> None:
    upload = Uploads(server)
    upload.keeps, upload.failure = 700_000, Reply(0)
    noting().push_blob(BLOB, BytesContent(DATA), counted.append)
    assert upload.data == DATA
    assert len(server.requests("POST")) == 1
    assert sum(counted) == len(DATA)


def lost(upload: Uploads, server: FaultServer) -> None:
    server.on("GET", SESSION, Reply(404))


def other_bytes(upload: Uploads, server: FaultServer) -> None:
    upload.data = b"x" * 1000


def too_many(upload: Uploads, server: FaultServer) -> None:
    upload.data = DATA + b"x"


def refuses(upload: Uploads, server: FaultServer) -> None:
    upload.data = DATA[:1000]
    upload.failure = Reply(400)


def nothing(upload: Uploads, server: FaultServer) -> None:
    pass


@pytest.mark.parametrize("state", [lost, other_bytes, too_many, refuses, nothing])
def test_a_session_that_is_no_good_starts_the_blob_again(
    server: FaultServer,
    noting: Callable[[], RegistryStore],
    counted: list[int],
    tmp_path: Path,
    state: Callable[[Uploads, FaultServer], None],
) -> None:
    upload = Uploads(server)
    stop_push(noting(), upload)
    state(upload, server)
    noting().push_blob(BLOB, BytesContent(DATA), counted.append)
    assert upload.data == DATA
    assert len(server.requests("POST")) == 2
    assert sum(counted) == len(DATA)
    assert notes(tmp_path) == []


def test_two_that_push_the_same_never_share_a_session(
    server: FaultServer, noting: Callable[[], RegistryStore], tmp_path: Path
) -> None:
    Uploads(server)
    inner = noting()

    class Nested(BytesContent):
        def open(self, offset: int = 0) -> Reader:
            if len(server.requests("POST")) == 1:
                inner.push_blob(BLOB, BytesContent(DATA))
            return super().open(offset)

    with pytest.raises(IntegrityError):
        # The server of this test has one session only, which the outer one finds used up.
        noting().push_blob(BLOB, Nested(DATA))
    assert not server.requests("GET", SESSION)
    assert len(server.requests("POST")) == 2


def test_an_error_that_will_not_change_leaves_no_note(
    server: FaultServer, noting: Callable[[], RegistryStore], tmp_path: Path
) -> None:
    Uploads(server, b"other")
    with pytest.raises(IntegrityError):
        noting().push_blob(BLOB, BytesContent(DATA))
    assert len(server.requests("DELETE", SESSION)) == 1
    assert notes(tmp_path) == []


def test_a_line_that_stays_broken_leaves_its_session_to_the_next(
    server: FaultServer, noting: Callable[[], RegistryStore], tmp_path: Path, counted: list[int]
) -> None:
    upload = Uploads(server)
    server.on("PUT", SESSION, Reply(0))
    with pytest.raises(NetworkError):
        noting().push_blob(BLOB, BytesContent(DATA), counted.append)
    assert sum(counted) == 0
    assert len(notes(tmp_path)) == 1
    server.on("PUT", SESSION, upload.put)
    noting().push_blob(BLOB, BytesContent(DATA), counted.append)
    assert upload.data == DATA
    assert notes(tmp_path) == []


def test_a_noted_address_gets_no_credentials_of_another_host(
    server: FaultServer, other: FaultServer, make_store: MakeStore, tmp_path: Path
) -> None:
    basic = Reply(401, headers={"WWW-Authenticate": "Basic realm=x"})
    server.on("POST", START, basic, Reply(202, headers={"Location": f"{other.url}{SESSION}?sig=s"}))
    other.on("PUT", SESSION, Reply(0))
    for _ in range(2):
        store = make_store(username="u", password="geheim")
        store.notes = tmp_path / "notes"
        with pytest.raises(StoreError) as caught:
            store.push_blob(BLOB, BytesContent(DATA))
        assert "sig" not in str(caught.value)
    assert other.requests("GET", SESSION)
    assert all(seen.authorization is None for seen in other.seen)


def test_small_blobs_are_not_noted(
    server: FaultServer, noting: Callable[[], RegistryStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository, "LEAST", len(DATA) + 1)
    stop_push(noting(), Uploads(server))
    assert not (tmp_path / "notes").exists()
    assert len(server.requests("DELETE", SESSION)) == 1
    assert re.fullmatch(r"\d+", server.requests("PUT")[0].headers["content-length"])
