# SPDX-License-Identifier: Apache-2.0
"""One read of a layer, with the hashing in other threads."""

from __future__ import annotations

import hashlib
import threading

import pytest

from ocibridge.errors import IntegrityError
from ocibridge.io.content import BytesContent, read_all
from ocibridge.layers import Encoding, Layer, LayerStream
from ocibridge.model import ModelFile, Role
from ocibridge.settings import SMALL_FILE

FILES = {
    "a": hashlib.shake_128(b"a").digest(SMALL_FILE // 2 + 12_345),
    "b": b"",
    "c": b"small",
    "d": hashlib.shake_128(b"d").digest(SMALL_FILE),
}


def layer(encoding: Encoding, sha256: str | None = None) -> Layer:
    names = ["d"] if encoding is Encoding.RAW else list(FILES)
    return Layer(tuple(ModelFile(name, Role.DOC, BytesContent(FILES[name]), sha256) for name in names), encoding)


def hash_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("ocibridge-hasher")]


@pytest.mark.parametrize("encoding", list(Encoding))
def test_bytes_and_digests_are_those_of_plain_reading(encoding: Encoding) -> None:
    made = layer(encoding)
    with LayerStream(made) as reading:
        # A pause in the middle, as a line that breaks makes it, changes nothing.
        blob = b"".join(bytes(next(reading)) for _ in range(3))
        assert hash_threads()
        assert reading.digests is None
        blob += b"".join(bytes(piece) for piece in reading)
        found = reading.finish()
    assert blob == read_all(made.content(len(blob)))
    assert (found.digest, found.size) == (f"sha256:{hashlib.sha256(blob).hexdigest()}", len(blob))
    assert found.diff_id == f"sha256:{hashlib.sha256(read_all(made.plain)).hexdigest()}"
    assert found.files == tuple(hashlib.sha256(FILES[file.path]).hexdigest() for file in made.files)
    assert reading.size == (None if encoding.compressed else len(blob))
    assert not hash_threads()


@pytest.mark.parametrize("encoding", list(Encoding))
def test_a_reading_that_is_given_up_leaves_no_thread(encoding: Encoding) -> None:
    with LayerStream(layer(encoding)) as reading:
        next(reading)
    assert not hash_threads()


def test_a_broken_promise_is_found_at_the_end() -> None:
    with (
        LayerStream(layer(Encoding.TAR, "0" * 64)) as reading,
        pytest.raises(IntegrityError, match="its format promises"),
    ):
        reading.finish()
    assert not hash_threads()


def test_who_watches_can_end_it() -> None:
    class Enough(Exception):
        pass

    def watch(count: int) -> None:
        raise Enough

    with LayerStream(layer(Encoding.TAR), watch) as reading, pytest.raises(Enough):
        reading.finish()
    assert not hash_threads()
