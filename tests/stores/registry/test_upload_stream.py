# SPDX-License-Identifier: Apache-2.0
"""Blobs that are hashed while they are sent, to servers that misbehave."""

from __future__ import annotations

import pytest

from ocibridge.errors import IntegrityError, SourceError
from ocibridge.io.content import BytesContent
from ocibridge.layers import Encoding, LayerStream
from ocibridge.settings import MiB
from ocibridge.stores.registry import RegistryStore
from ocibridge.stores.registry import upload as upload_module

from .conftest import MakeStore
from .fault_server import FaultServer, Reply
from .uploads import BLOB, DATA, SESSION, Uploads, counted, layer, reading

__all__ = ["counted", "reading"]


def test_one_patch_and_an_empty_put(
    server: FaultServer, store: RegistryStore, reading: LayerStream, counted: list[int]
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
    monkeypatch.setattr(upload_module, "STREAM_CHUNK", 400_000)
    made = layer(BytesContent(DATA), Encoding.TAR_ZSTD)
    with LayerStream(made) as first:
        size = first.finish().size
    with made.content(size).open() as reader:
        blob = reader.readall()
    upload = Uploads(server, blob)
    with LayerStream(made) as again:
        assert store.stream_blob(again, None, counted.append)
    assert upload.data == blob
    *chunks, last = [len(seen.body) for seen in server.requests("PATCH")]
    assert len(chunks) >= 1
    assert all(400_000 <= chunk < 400_000 + MiB for chunk in chunks)
    assert last > 0
    assert sum(counted) == size


@pytest.mark.parametrize("status", [400, 404, 405, 411, 413, 416, 500, 502, 503, 0])
def test_what_is_refused_is_pushed_with_its_digest(
    server: FaultServer, store: RegistryStore, reading: LayerStream, counted: list[int], status: int
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
    with LayerStream(layer(BytesContent(DATA))) as another:
        assert not store.stream_blob(another, None)
    assert len(server.requests("PATCH")) == 1
    assert not store.capabilities.streams


def test_an_early_refusal(server: FaultServer, store: RegistryStore, counted: list[int]) -> None:
    Uploads(server)
    server.on("PATCH", SESSION, Reply(413, early=True))
    with LayerStream(layer(BytesContent(bytes(40 * MiB)))) as reading:
        assert not store.stream_blob(reading, None, counted.append)
        assert reading.finish().size == 40 * MiB
    assert sum(counted) == 0


def test_a_stream_that_would_have_to_be_sent_again(
    server: FaultServer, make_store: MakeStore, reading: LayerStream, counted: list[int]
) -> None:
    tokens = iter("abcdef")
    server.on("GET", "/token", lambda seen: Reply(200, b'{"token":"t-%s"}' % next(tokens).encode()))
    bearer = {"WWW-Authenticate": f'Bearer realm="{server.url}/token",service="s",scope="repository:r:pull,push"'}
    Uploads(server)
    server.on("PATCH", SESSION, Reply(401, headers=bearer))
    assert not make_store().stream_blob(reading, None, counted.append)
    assert sum(counted) == 0
    assert reading.finish().digest == BLOB.digest


def test_a_refused_digest_is_no_success(server: FaultServer, store: RegistryStore, reading: LayerStream) -> None:
    Uploads(server, b"what the network made of it")
    assert not store.stream_blob(reading, None)


@pytest.mark.parametrize("size", [len(DATA) - 1, len(DATA) + 1])
def test_a_source_that_changes_its_size(
    server: FaultServer, store: RegistryStore, counted: list[int], size: int
) -> None:
    class Lying(BytesContent):
        size = len(DATA)

    Uploads(server)
    with (
        LayerStream(layer(Lying(DATA[:size] + b"x" * (size - len(DATA))))) as reading,
        pytest.raises((SourceError, IntegrityError), match=r"its size|were announced"),
    ):
        store.stream_blob(reading, None, counted.append)
    assert sum(counted) == 0
    assert not server.requests("PUT")
    assert len(server.requests("DELETE", SESSION)) == 1


def test_a_broken_promise_closes_nothing(server: FaultServer, store: RegistryStore, counted: list[int]) -> None:
    Uploads(server)
    with (
        LayerStream(layer(BytesContent(DATA), Encoding.TAR, "0" * 64)) as reading,
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
        assert store.is_new() is expected
    for host in ("ghcr.io", "europe-docker.pkg.dev", "eu.gcr.io", "gcr.io", "1.dkr.ecr.eu-west-1.amazonaws.com"):
        assert not make_store(host=host).capabilities.streams
