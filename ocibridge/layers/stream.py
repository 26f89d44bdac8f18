# SPDX-License-Identifier: Apache-2.0
"""Reading a layer once: its bytes for whoever stores them, and its digests at the end."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterable, Iterator
from typing import Any

from ..errors import IntegrityError
from ..io.hasher import SMALL, BackgroundHasher
from ..io.readers import ByteCount, chunks, ignore_bytes
from ..model import ModelFile
from ..paths import show
from ..settings import READ_SIZE, SMALL_FILE
from .encoding import Encoding, compress
from .layer import Layer, LayerDigests


class LayerHasher:
    """Hashes a layer before compression: all of its bytes, and each file in it.

    Args:
        sizes: For each file the bytes before it that are of no file, and its own; None where the layer is a file.
        on_bytes: Called with the number of bytes of files that were read.
        threads: Whether threads hash, while others use the bytes.

    Attributes:
        hash: Hash of everything.
    """

    def __init__(self, sizes: Iterable[tuple[int, int]] | None, on_bytes: ByteCount, threads: bool) -> None:
        self.hash = hashlib.sha256()
        self._every, self._each = BackgroundHasher(threads), BackgroundHasher(threads and sizes is not None)
        self._on_bytes = on_bytes
        self._files: list[str | hashlib._Hash] = []
        self._split = None if sizes is None else self._split_files(sizes)
        if self._split:
            next(self._split)

    def watch(self, pieces: Iterable[memoryview]) -> Iterator[memoryview]:
        """The same pieces, hashed while the caller uses them; each is good until the next one is asked for."""
        for piece in pieces:
            self._every.update(self.hash, piece)
            self._on_bytes(self._split.send(piece) if self._split else len(piece))
            yield piece
            self._wait()
        if self._split:
            self._split.send(memoryview(b""))  # empty files at the end

    def files(self) -> list[str]:
        """Hex sha256 of each file, in their order; after everything was read."""
        self._wait()
        if not self._split:
            return [self.hash.hexdigest()]
        return [each if isinstance(each, str) else each.hexdigest() for each in self._files]

    def __enter__(self) -> LayerHasher:
        return self

    def __exit__(self, *exc: Any) -> None:
        if self._split:
            # It refers to this object and to the caller's buffer: both would stay until the garbage collector comes.
            self._split.close()
        with self._every:
            self._each.__exit__(*exc)

    def _wait(self) -> None:
        self._every.wait()
        self._each.wait()

    def _split_files(self, sizes: Iterable[tuple[int, int]]) -> Generator[int, memoryview, None]:
        """Takes the bytes piece by piece, and gives the number of those that are of files."""
        view = yield 0
        count = 0
        for gap, size in sizes:
            while gap > len(view):
                gap -= len(view)
                view = yield count
                count = 0
            view = view[gap:]
            if size < SMALL and size <= len(view):
                self._files.append(hashlib.sha256(view[:size]).hexdigest())
                view = view[size:]
                count += size
                continue
            digest = hashlib.sha256()
            self._files.append(digest)
            while size:
                part = view[:size]
                self._each.update(digest, part)
                view = view[len(part) :]
                size -= len(part)
                count += len(part)
                if size:
                    view = yield count
                    count = 0
        while True:
            yield count
            count = 0


class LayerStream:
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

    def __enter__(self) -> LayerStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self) -> Generator[memoryview | bytes, None, None]:
        layer, compressed = self._layer, self._layer.encoding.compressed
        # Of many small layers, each has a small buffer.
        step = max(1, min(READ_SIZE, layer.parts.size))
        sizes = [part.size for part in layer.parts.parts]
        pairs = None if layer.encoding is Encoding.RAW else list(zip(sizes[::2], sizes[1::2], strict=False))
        blob, size = hashlib.sha256(), 0
        with (
            layer.parts.open() as reader,
            LayerHasher(pairs, self._on_bytes, threads=layer.size >= SMALL_FILE) as hasher,
        ):
            plain = hasher.watch(chunks(reader, step))
            for piece in compress(plain, layer.encoding, layer.parts.size) if compressed else plain:
                if compressed:
                    blob.update(piece)
                size += len(piece)
                yield piece
            found = hasher.files()
        # A tar archive has the files in an order of its own.
        order = sorted(range(len(found)), key=lambda number: layer.files[number].path.encode())
        hashes = dict(zip(order, found, strict=True))
        files = tuple(hashes[number] for number in range(len(found)))
        for file, sha256 in zip(layer.files, files, strict=True):
            _check_file(file, sha256)
        diff_id = "sha256:" + hasher.hash.hexdigest()
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
    with LayerStream(layer, on_bytes) as reading:
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
