# SPDX-License-Identifier: Apache-2.0
"""The files of a layer, each a range of bytes that can be read without the rest of its blob.

A raw layer is its file. In a tar layer each file is a range: of one of ours the range follows from the listing in the
manifest, and the header before it is compared; of others the headers are read, one after the other. The files of a
compressed layer are no ranges of the blob: it is streamed as far as the file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack

from ..errors import IntegrityError
from ..io.content import Content
from ..io.readers import LimitedReader, PieceReader, Reader, SkippingReader, read_full, skip
from ..layers import Encoding, StoredLayer, TarEntry, read_tar, without_prefix
from ..layers.encoding import decompress
from ..layers.tar import BLOCK, REGULAR, tar_header, tar_order
from ..model import FileEntry, ModelFile
from ..oci import Descriptor
from ..paths import check_path, show
from ..settings import KiB, MiB
from .base import Store
from .verified import VerifiedReader

_WINDOW, _LARGEST_WINDOW = 16 * KiB, MiB
"""Bytes of the first request for headers, and of the largest one, where they follow each other closely."""
_FAR = 32 * KiB
"""Bytes of a file from which it pays to pass over it with a request."""
_AHEAD = 256 * KiB


def layer_files(store: Store, layer: StoredLayer) -> Iterator[ModelFile]:
    """The files of a layer, each with a `StoredContent`; nothing is read of one whose manifest lists its files.

    Args:
        store: Where the layer is; it must stay open.
        layer: The layer.

    Raises:
        FormatError: it is no tar archive.
        IntegrityError: it ends too early.
        StoreError: the store cannot be read.
    """
    if layer.encoding is Encoding.RAW:
        yield _file(layer.files[0], _RawContent(store, layer, layer.files[0]))
    elif layer.files:
        make = _UnpackedContent if layer.encoding.compressed else _TarContent
        start = 0
        for listed, member in sorted(
            zip(layer.files, layer.members, strict=True), key=lambda pair: tar_order((pair[1].path, None))
        ):
            size = listed.size or 0
            start += len(tar_header(member.path, size))
            yield _file(listed, make(store, layer, member, start))
            start += size + -size % BLOCK
    else:
        yield from _unlisted(store, layer)


def _file(entry: FileEntry, content: Content) -> ModelFile:
    return ModelFile(entry.path, entry.role, content, entry.sha256, entry.symlink)


class StoredContent(ABC):
    """A file in a layer of a store. What is read from the start is verified at its end if its sha256 is known.

    Args:
        store: Where the layer is.
        layer: The layer.
        entry: The file, with its name in the layer.

    Attributes:
        size: Length in bytes.
    """

    def __init__(self, store: Store, layer: StoredLayer, entry: FileEntry) -> None:
        self._store = store
        self._layer = layer
        self._entry = entry
        self.size = entry.size or 0

    @abstractmethod
    def open_range(self, offset: int, size: int) -> Reader:
        """`size` bytes from `offset`, unverified."""

    def open(self, offset: int = 0) -> Reader:
        """Open from `offset` bytes; from the start, the reader fails at its end if another sha256 is known.

        Raises:
            IntegrityError: the layer does not hold the file that its manifest lists.
            StoreError: the store does not have the layer, or cannot be reached.
        """
        reader = self.open_range(offset, self.size - offset)
        if offset or self._entry.sha256 is None:
            return reader
        promised = Descriptor(
            media_type="application/octet-stream", digest=f"sha256:{self._entry.sha256}", size=self.size
        )
        return VerifiedReader(reader, promised, f"{self._store.name}: the file {show(self._entry.path)}")

    @property
    def _owner(self) -> str:
        return f"the layer {self._layer.descriptor.digest}"


class _RawContent(StoredContent):
    def open_range(self, offset: int, size: int) -> Reader:
        return self._store.open_range(self._layer.descriptor, offset, size)

    def open(self, offset: int = 0) -> Reader:
        return super().open(offset) if offset else self._store.open_blob(self._layer.descriptor)


class _TarContent(StoredContent):
    """A file in a tar layer.

    Args:
        start: Where it starts in the blob.
        known: Whether `start` was read from the archive, and does not only follow from the listing.
    """

    def __init__(self, store: Store, layer: StoredLayer, entry: FileEntry, start: int, known: bool = False) -> None:
        super().__init__(store, layer, entry)
        self._start = start
        self._known = known

    def open_range(self, offset: int, size: int) -> Reader:
        blob = self._layer.descriptor
        if not self._known and self._start + self.size <= blob.size:
            header = tar_header(self._entry.path, self.size)
            # One request for the header, and for the file where it is read from its start.
            found = self._store.open_range(blob, self._start - len(header), len(header) + (0 if offset else size))
            buffer = memoryview(bytearray(len(header)))
            self._known = read_full(found, buffer) == len(header) and bytes(buffer) == header
            if self._known and not offset:
                return found
            found.close()
        if not self._known:
            self._start, self._known = self._look_for_it(), True
        return self._store.open_range(blob, self._start + offset, size)

    def _look_for_it(self) -> int:
        """The start of the file in an archive that is not as ours would be."""
        for entry, start in _headers(self._store, self._layer.descriptor, self._owner):
            if entry.path == self._entry.path and entry.size == self.size:
                return start
        raise _lacking(self._owner, self._entry)


class _UnpackedContent(StoredContent):
    """A file in a compressed layer."""

    def __init__(self, store: Store, layer: StoredLayer, entry: FileEntry, start: int) -> None:
        super().__init__(store, layer, entry)

    def open_range(self, offset: int, size: int) -> Reader:
        blob = self._store.open_blob(self._layer.descriptor)
        try:
            plain = decompress(blob, self._layer.encoding, self._owner, self._store.limits)
            for entry in read_tar(plain, self._owner, self._store.limits, ahead=_AHEAD):
                if entry.path == self._entry.path and entry.size == self.size:
                    skip(entry.reader, offset)
                    return _UnpackedReader(entry.reader, size, blob)
            raise _lacking(self._owner, self._entry)
        except BaseException:
            blob.close()
            raise


class _UnpackedReader(LimitedReader):
    """Closes the blob that a file is read from."""

    def __init__(self, source: Reader, size: int, blob: Reader) -> None:
        super().__init__(source, size)
        self._blob = blob

    def close(self) -> None:
        self._blob.close()
        super().close()


def _lacking(owner: str, entry: FileEntry) -> IntegrityError:
    return IntegrityError(
        f"{owner} lacks {show(entry.path)} ({entry.size} bytes), which its manifest lists",
        hint="the artifact was built wrongly: publish it again",
    )


def _unlisted(store: Store, layer: StoredLayer) -> Iterator[ModelFile]:
    """The files of a tar layer whose manifest does not list them."""
    owner = f"the layer {layer.descriptor.digest}"
    with ExitStack() as stack:
        entries: Iterator[tuple[TarEntry, int]]
        if layer.encoding.compressed:
            blob = stack.enter_context(store.open_blob(layer.descriptor))
            plain = decompress(blob, layer.encoding, owner, store.limits)
            entries = ((entry, 0) for entry in read_tar(plain, owner, store.limits, ahead=_AHEAD))
        else:
            entries = _headers(store, layer.descriptor, owner)
        for entry, start in entries:
            if entry.kind != REGULAR:
                continue
            found = FileEntry(entry.path, layer.role, entry.size)
            content: Content
            if layer.encoding.compressed:
                content = _UnpackedContent(store, layer, found, start)
            else:
                content = _TarContent(store, layer, found, start, known=True)
            path = without_prefix(check_path(entry.path, owner), layer.prefix, owner)
            yield _file(found._replace(path=path), content)


def _headers(store: Store, blob: Descriptor, owner: str) -> Iterator[tuple[TarEntry, int]]:
    """The entries of a plain tar archive, each with the place of its content; large files are passed over."""

    def open_at(offset: int) -> Reader:
        return PieceReader(_windows(store, blob, offset))

    with SkippingReader(open_at, blob.size, far=_FAR) as reader:
        for entry in read_tar(reader, owner, store.limits):
            yield entry, reader.position


def _windows(store: Store, blob: Descriptor, offset: int) -> Iterator[bytes]:
    """The bytes of a blob from `offset`, in ranges that become larger, each read whole so that its connection lasts."""
    window = _WINDOW
    while offset < blob.size:
        size = min(window, blob.size - offset)
        with store.open_range(blob, offset, size) as reader:
            buffer = memoryview(bytearray(size))
            if read_full(reader, buffer) < size:
                return
        yield bytes(buffer)
        offset += size
        window = min(2 * window, _LARGEST_WINDOW)
