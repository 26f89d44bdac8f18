# SPDX-License-Identifier: Apache-2.0
"""Layers: digests found in one read, and back again."""

import hashlib

import pytest

from ocibridge.errors import FormatError, IntegrityError, OcibridgeError, SourceError
from ocibridge.io.content import BytesContent, Content, read_all
from ocibridge.io.readers import Reader
from ocibridge.layers import Encoding, Layer, StoredLayer, describe, unpack
from ocibridge.layers.encoding import decompress
from ocibridge.model import FileEntry, ModelFile, Role
from ocibridge.oci import Descriptor, sha256_digest

DATA = {"a/one": b"1" * 3_000_000, "a/two": bytes(range(256)) * 5, "b": b""}
GOLDEN = {
    Encoding.TAR: "50ef216a5412e8de904839da7dfbb2083ee8866f9a62b3b2fdafb0db9fd74147",
    Encoding.TAR_GZIP: "480b174c149fcd2d296d670eb4b64800e5796bd1cd1e9627a48b1c5a53107b88",
    Encoding.TAR_ZSTD: "9fbe67c83934dc9529d3d6647c3623ad9c83d37802d6e50f3856f3d0f485fea4",
}


def layer(encoding: Encoding, data: dict[str, bytes] = DATA, sha256: str | None = None) -> Layer:
    return Layer(tuple(ModelFile(path, Role.DOC, BytesContent(each), sha256) for path, each in data.items()), encoding)


def stored(data: bytes, encoding: Encoding, **more: object) -> StoredLayer:
    return StoredLayer(Descriptor.of(data, "m"), encoding, Role.DOC, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("encoding", GOLDEN)
def test_golden_digests_and_round_trip(encoding: Encoding) -> None:
    made = layer(encoding)
    found = describe(made)
    blob = read_all(made.content(found.size))
    assert found.digest == "sha256:" + GOLDEN[encoding]
    assert (len(blob), sha256_digest(blob)) == (found.size, found.digest)
    assert found.diff_id == describe(layer(Encoding.TAR)).digest
    assert found.files == tuple(hashlib.sha256(each).hexdigest() for each in DATA.values())
    back = {
        file.path: file.reader.read()
        for file in unpack(stored(blob, encoding, diff_id=found.diff_id), BytesContent(blob).open())
    }
    assert back == DATA
    with made.content(found.size).open(100) as reader:
        assert reader.readall() == blob[100:]


class Counting:
    """A content that counts what is read of it."""

    def __init__(self, data: bytes) -> None:
        self.data, self.opened = data, 0

    @property
    def size(self) -> int:
        return len(self.data)

    def open(self, offset: int = 0) -> Reader:
        self.opened += 1
        return BytesContent(self.data).open(offset)


@pytest.mark.parametrize("encoding", list(Encoding))
def test_a_byte_is_read_once_at_most(encoding: Encoding) -> None:
    content = Counting(b"x" * 100)
    describe(Layer((ModelFile("x", Role.WEIGHT, content),), encoding))
    assert content.opened == 1


def test_a_promised_raw_layer_is_not_read() -> None:
    content = Counting(b"x" * 100)
    promise = hashlib.sha256(b"x" * 100).hexdigest()
    found = describe(Layer((ModelFile("x", Role.WEIGHT, content, promise),), Encoding.RAW))
    assert (found.digest, found.size, content.opened) == ("sha256:" + promise, 100, 0)


@pytest.mark.parametrize("encoding", [Encoding.TAR, Encoding.TAR_GZIP, Encoding.TAR_ZSTD])
def test_a_broken_promise_is_named(encoding: Encoding) -> None:
    with pytest.raises(IntegrityError, match="'b' has the sha256"):
        describe(layer(encoding, {"b": b"x"}, "0" * 64))


@pytest.mark.parametrize("size", [99, 101])
def test_a_content_of_another_size_is_an_error(size: int) -> None:
    class Lying(Counting):
        @property
        def size(self) -> int:
            return size

    content: Content = Lying(b"x" * 100)
    with pytest.raises(SourceError, match="were announced"):
        describe(Layer((ModelFile("x", Role.WEIGHT, content),), Encoding.TAR))


def test_progress_adds_up_to_the_files() -> None:
    counts: list[int] = []
    describe(layer(Encoding.TAR), counts.append)
    assert sum(counts) == sum(map(len, DATA.values()))


@pytest.mark.parametrize("encoding", [Encoding.TAR_GZIP, Encoding.TAR_ZSTD])
def test_a_wrong_diff_id_is_found(encoding: Encoding) -> None:
    made = layer(encoding, {"x": b"y"})
    blob = read_all(made.content(describe(made).size))
    wrong = stored(blob, encoding, diff_id="sha256:" + "0" * 64)
    with pytest.raises(IntegrityError, match="its config says"):
        for file in unpack(wrong, BytesContent(blob).open()):
            file.reader.read()


@pytest.mark.parametrize("encoding", [Encoding.TAR_GZIP, Encoding.TAR_ZSTD])
def test_damaged_compression_is_one_sentence(encoding: Encoding) -> None:
    made = layer(encoding)
    blob = read_all(made.content(describe(made).size))
    for damaged in (blob[:-20], b"garbage" + blob, blob[:50] + b"\xff" * 40 + blob[90:], b""):
        with pytest.raises(OcibridgeError), decompress(BytesContent(damaged).open(), encoding, "it") as reader:
            list(unpack(stored(damaged, encoding), BytesContent(damaged).open()))
            reader.read()


def test_a_bomb_is_never_held_in_memory() -> None:
    import tracemalloc

    made = layer(Encoding.TAR_ZSTD, {"zeros": bytes(64 << 20)})
    blob = read_all(made.content(describe(made).size))
    assert len(blob) < 20_000
    tracemalloc.start()
    try:
        for file in unpack(stored(blob, Encoding.TAR_ZSTD), BytesContent(blob).open()):
            while file.reader.read(1 << 16):
                pass
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def _unpack(data: dict[str, bytes], *listed: FileEntry) -> None:
    made = layer(Encoding.TAR, data)
    blob = read_all(made.plain)
    for file in unpack(stored(blob, Encoding.TAR, files=listed), BytesContent(blob).open()):
        file.reader.read()


def test_the_listing_of_the_manifest_is_held_to() -> None:
    _unpack({"x": b"y"}, FileEntry("x", Role.DOC, 1))
    with pytest.raises(IntegrityError, match="not in the listing"):
        _unpack({"x": b"", "y": b""}, FileEntry("x", Role.DOC, 0))
    with pytest.raises(IntegrityError, match="lacks 'y'"):
        _unpack({"x": b""}, FileEntry("x", Role.DOC, 0), FileEntry("y", Role.DOC, 0))
    with pytest.raises(IntegrityError, match="the manifest says 2"):
        _unpack({"x": b"y"}, FileEntry("x", Role.DOC, 2))


@pytest.mark.parametrize("path", ["../x", "/x", "a\\b"])
def test_unsafe_names_in_a_layer_are_refused(path: str) -> None:
    with pytest.raises(FormatError):
        _unpack({path: b"y"})
