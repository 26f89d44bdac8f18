# SPDX-License-Identifier: Apache-2.0
"""Uploads that outlive their process, to servers that misbehave."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ocibridge.errors import IntegrityError, NetworkError, StoreError
from ocibridge.io.content import BytesContent
from ocibridge.io.readers import Reader
from ocibridge.layers import LayerStream
from ocibridge.stores.registry import RegistryStore, distribution

from .conftest import MakeStore
from .fault_server import FaultServer, Reply
from .uploads import BLOB, DATA, SESSION, START, Uploads, counted, layer, reading

__all__ = ["counted", "reading"]


@pytest.fixture(autouse=True)
def forgiving(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distribution, "LEAST", 1000)


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
    with LayerStream(layer(Stopping(DATA))) as reading, pytest.raises(Stopped):
        noting().stream_blob(reading, "key")
    assert upload.stopped.wait(30)
    assert not server.requests("DELETE")
    upload.data = DATA[:kept]
    with LayerStream(layer(BytesContent(DATA))) as reading:
        assert noting().stream_blob(reading, "key", counted.append)
        assert reading.finish().digest == BLOB.digest
    assert upload.data == DATA
    assert [len(seen.body) for seen in server.requests("PATCH")[1:]] == [len(DATA) - kept] * (kept < len(DATA))
    assert len(server.requests("POST")) == 1
    assert sum(counted) == len(DATA)
    assert notes(tmp_path) == []


def test_a_stream_whose_connection_broke_goes_on_with_its_digest(
    server: FaultServer, noting: Callable[[], RegistryStore], reading: LayerStream, counted: list[int], tmp_path: Path
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


def test_a_put_whose_connection_broke_goes_on(
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


def test_a_connection_that_stays_broken_leaves_its_session_to_the_next(
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
    monkeypatch.setattr(distribution, "LEAST", len(DATA) + 1)
    stop_push(noting(), Uploads(server))
    assert not (tmp_path / "notes").exists()
    assert len(server.requests("DELETE", SESSION)) == 1
    assert re.fullmatch(r"\d+", server.requests("PUT")[0].headers["content-length"])
