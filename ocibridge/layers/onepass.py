# SPDX-License-Identifier: Apache-2.0
"""Reading a layer once: its bytes for whoever stores them, and its digests at the end."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterator

from ..errors import IntegrityError
from ..io.content import ByteCount, chunks, ignore_bytes
from ..io.hasher import BackgroundHasher
from ..model import ModelFile
from ..paths import show
from ..settings import READ_SIZE, SMALL_FILE
from .encoding import Encoding, compress
from .hashing import Tally
from .layer import Layer, LayerDigests


class OnePass:
    """One read of a layer: an iterator over the bytes of its blob, which may be left and taken up again.

    Each piece is good until the next one is asked for. After the last one the promises of the format are checked, and
    `digests` is set.

    Args:
        layer: The layer.
        on_bytes: Called with the number of file bytes read.

    Attributes:
        label: What messages call the layer.
        size: Length of the blob in bytes; None where only compressing it will tell.
        digests: What was found; None before the end.

    Raises:
        IntegrityError: (at the end) a file does not have the sha256 that its format promises.
        SourceError: (on the way) a file cannot be read, or changed its size.
    """

    def __init__(self, layer: Layer, on_bytes: ByteCount = ignore_bytes) -> None:
        self.label = layer.label
        self.size = None if layer.encoding.compressed else layer.plain.size
        self.digests: LayerDigests | None = None
        self._layer = layer
        self._on_bytes = on_bytes
        self._pieces = self._read()

    def __iter__(self) -> Iterator[memoryview | bytes]:
        return self

    def __next__(self) -> memoryview | bytes:
        return next(self._pieces)

    def finish(self) -> LayerDigests:
        """Read what is left, and give the digests."""
        for _ in self._pieces:
            pass
        assert self.digests
        return self.digests

    def close(self) -> None:
        """Stop reading."""
        self._pieces.close()

    def __enter__(self) -> OnePass:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self) -> Generator[memoryview | bytes, None, None]:
        layer, compressed = self._layer, self._layer.encoding.compressed
        # Of many small layers, each has a small buffer.
        step = max(1, min(READ_SIZE, layer.parts.size))
        sizes = [part.size for part in layer.parts.parts]
        pairs = None if layer.encoding is Encoding.RAW else list(zip(sizes[::2], sizes[1::2], strict=False))
        large = layer.size >= SMALL_FILE
        blob, size = hashlib.sha256(), 0
        with (
            BackgroundHasher(large) as every,
            BackgroundHasher(large) as each,
            Tally(layer.parts.open(), pairs, (every, each), self._on_bytes) as plain,
        ):
            for piece in compress(plain, layer.encoding, layer.parts.size) if compressed else chunks(plain, step):
                if compressed:
                    blob.update(piece)
                size += len(piece)
                yield piece
            found = plain.files()
        # A tar archive has the files in an order of its own.
        order = sorted(range(len(found)), key=lambda number: layer.files[number].path.encode())
        hashes = dict(zip(order, found, strict=True))
        files = tuple(hashes[number] for number in range(len(found)))
        for file, sha256 in zip(layer.files, files, strict=True):
            _check_file(file, sha256)
        diff_id = "sha256:" + plain.hash.hexdigest()
        self.digests = LayerDigests("sha256:" + blob.hexdigest() if compressed else diff_id, size, diff_id, files)


def describe(layer: Layer, on_bytes: ByteCount = ignore_bytes) -> LayerDigests:
    """Find digest, diff id and file hashes of a layer, reading each byte once at most.

    A raw layer whose file has a promised sha256 is not read at all: whoever stores the blob verifies it.

    Args:
        layer: The layer.
        on_bytes: Called with the number of file bytes read.

    Raises:
        IntegrityError: a file does not have the sha256 that its format promises.
        SourceError: a file cannot be read, or changed its size.
    """
    if layer.promised:
        return promised(layer)
    with OnePass(layer, on_bytes) as reading:
        return reading.finish()


def promised(layer: Layer) -> LayerDigests:
    """The digests of a layer that is `promised`."""
    file = layer.files[0]
    digest = f"sha256:{file.sha256}"
    return LayerDigests(digest, file.size, digest, (str(file.sha256),))


def _check_file(file: ModelFile, sha256: str) -> None:
    if file.sha256 not in (None, sha256):
        raise IntegrityError(
            f"{show(file.path)} has the sha256 {sha256}, its format promises {file.sha256}",
            hint="the source is damaged: fetch or pack it again",
        )
