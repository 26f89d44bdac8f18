# SPDX-License-Identifier: Apache-2.0
"""A registry that takes uploads in every form, and what is sent to it."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator

import pytest

from ocibridge.io.content import BytesContent, Content
from ocibridge.layers import Encoding, Layer, LayerStream
from ocibridge.model import ModelFile, Role
from ocibridge.oci import Descriptor

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


@pytest.fixture
def counted() -> list[int]:
    return []


@pytest.fixture
def reading() -> Iterator[LayerStream]:
    with LayerStream(layer(BytesContent(DATA))) as opened:
        yield opened


def layer(content: Content, encoding: Encoding = Encoding.RAW, sha256: str | None = None) -> Layer:
    return Layer((ModelFile("w", Role.WEIGHT, content, sha256),), encoding)
