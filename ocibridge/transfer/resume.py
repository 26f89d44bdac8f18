# SPDX-License-Identifier: Apache-2.0
"""Resume a layer that another process has begun to restore.

The bytes of a blob that are on the disk already are put together again, headers from the journal and files from the
target, and read once more; only the rest is fetched. So the digest of the blob is checked over all of it, whoever wrote
it, and a file that has changed meanwhile is found out. The bytes of a compressed layer cannot be made again from its
files: they are kept next to the target until all of these are there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from ..formats.base import Sink
from ..io.content import BytesContent, Concatenation, Content, FileContent
from ..io.journal import MARK, Journal, JournalEntry
from ..io.readers import ByteCount, HashingReader, JoinedReader, ProgressReader, Reader, drain
from ..layers import Encoding, StoredLayer, UnpackedFile, unpack
from ..layers.tar import tar_gap
from ..oci import Descriptor
from ..settings import Limits, MiB
from ..stores.base import Store
from ..stores.content import open_rest
from ..stores.verified import VerifiedReader
from .spool import SpooledReader

MAX_GAPS = 64 * MiB
"""Bytes of headers that are journalled of one layer; beyond them it is read anew."""


class LayerResume:
    """One layer on its way into a sink, with what an earlier process has left of it, and notes for a later one.

    Args:
        layer: The layer.
        sink: Where its files go.
        journal: The notes of `sink`.
        number: Position of the layer in its artifact, which may have the same blob twice.
    """

    def __init__(self, layer: StoredLayer, sink: Sink, journal: Journal, number: int) -> None:
        self._layer = layer
        self._journal = journal
        self._key = f"{number}-{layer.descriptor.digest[7:]}"
        self._journalled = journal.entries(self._key)
        self._passed = 0
        self._gap_bytes = 0
        self.prefix: Content | None = None
        self.files: list[tuple[JournalEntry, Content]] = []
        if layer.encoding.compressed:
            self.files = self._complete_files(sink)
            if not self.files:
                if self._journalled:
                    journal.forget(self._key)
                    self._journalled = []
                self.prefix = self._spooled_prefix()
        else:
            self.prefix = self._prefix_on_disk(sink)

    @property
    def kept(self) -> int:
        """Bytes of the blob that need not be fetched."""
        if self.files:
            return self._layer.descriptor.size
        return self.prefix.size if self.prefix else 0

    def files_of(self, store: Store, on_bytes: ByteCount, limits: Limits) -> Iterator[UnpackedFile]:
        """The files of the layer, from the disk and from `store`; a later process can resume after each file.

        Args:
            store: Where the blob is.
            on_bytes: Called with the number of bytes of the blob read, from the store or from disk.
            limits: See `ocibridge.settings.Limits`.
        """
        if self.files:
            yield from self._kept_files(on_bytes)
            return
        with self._open(store) as blob:
            source = ProgressReader(blob, on_bytes)
            files = self._compressed if self._layer.encoding.compressed else self._plain
            yield from files(source, limits)
        if self._layer.encoding.compressed:
            self._drop_spool()

    def _plain(self, source: Reader, limits: Limits) -> Iterator[UnpackedFile]:
        gaps = bytearray()
        before = 0

        def record(entry: JournalEntry) -> None:
            self._record(entry if self._gap(before, entry) == gaps else entry._replace(gap=bytes(gaps)))
            gaps.clear()

        for file in self._unpacked(source, limits, gaps):
            record(JournalEntry(None, file.path, file.size))
            before = file.size
            yield file
        record(JournalEntry(None))

    def _compressed(self, source: Reader, limits: Limits) -> Iterator[UnpackedFile]:
        """The bytes cannot be put together again from the files: each file is journalled when it is whole."""
        for file in self._unpacked(source, limits):
            hashed = HashingReader(file.reader)
            yield file._replace(reader=hashed)
            self._record(JournalEntry(None, file.path, file.size, hashed.hash.hexdigest()))
        self._record(JournalEntry(None))

    def _unpacked(self, source: Reader, limits: Limits, gaps: bytearray | None = None) -> Iterator[UnpackedFile]:
        yield from unpack(self._layer, source, limits, gaps)
        # The digest is checked at the end, which a file that is a layer of its own does not reach.
        drain(source)

    def _open(self, store: Store) -> Reader:
        """The whole blob, verified at its end, of which only what is not here comes from `store`."""
        descriptor, kept = self._layer.descriptor, self.kept
        if self.prefix:
            # The store is not asked before the disk has been read: it would have to wait for that.
            joined = JoinedReader(self.prefix.open(), lambda: open_rest(store, descriptor, kept))
            blob: Reader = VerifiedReader(joined, descriptor, store.name)
        else:
            blob = store.open_blob(descriptor)
        if self._layer.encoding.compressed and descriptor.size >= MARK:
            return SpooledReader(blob, self._journal.spool(self._key), kept)
        return blob

    def _kept_files(self, on_bytes: ByteCount) -> Iterator[UnpackedFile]:
        """The files of a compressed layer that is here, each checked against its sha256."""
        for entry, content in self.files:
            promised = Descriptor(media_type="", digest=f"sha256:{entry.sha256}", size=entry.size)
            with VerifiedReader(content.open(), promised, f"the file {entry.path}") as reader:
                yield UnpackedFile(str(entry.path), entry.size, reader, entry.sha256)
        on_bytes(self._layer.descriptor.size)

    def _record(self, entry: JournalEntry) -> None:
        """The file before is whole, and this one begins (or, in a compressed layer, is whole too); or the layer is."""
        self._gap_bytes += len(entry.gap or b"")
        # What is replayed is in the journal already; a layer with too many headers is not worth a journal of its own.
        if self._passed >= len(self._journalled) and self._gap_bytes <= MAX_GAPS:
            self._journal.add(self._key, entry)
        self._passed += 1

    def forget(self) -> None:
        """Discard the kept bytes, which are wrong, and start the layer again."""
        self._journal.forget(self._key)
        self._drop_spool()
        self._journalled, self.prefix, self.files = [], None, []
        self._passed = self._gap_bytes = 0

    def _drop_spool(self) -> None:
        with suppress(OSError):
            self._journal.spool(self._key).unlink()

    def _spooled_prefix(self) -> Content | None:
        place = self._journal.spool(self._key)
        size = place.stat().st_size if place.is_file() and not place.is_symlink() else 0
        return FileContent(place, 0, size) if 0 < size <= self._layer.descriptor.size else None

    def _prefix_on_disk(self, sink: Sink) -> Content | None:
        parts: list[Content] = []
        used = before = 0
        for number, entry in enumerate(self._journalled):
            used = number + 1
            parts.append(BytesContent(self._gap(before, entry)))
            before = entry.size
            if entry.path is None:
                break
            whole = number + 1 < len(self._journalled)
            found = sink.resume_file(entry.path, entry.size, whole)
            if found:
                parts.append(found)
            if not found or found.size < entry.size:
                break
        if used < len(self._journalled):
            self._journal.cut(self._key, used)
            self._journalled = self._journalled[:used]
        made = Concatenation(parts)
        return made if 0 < made.size <= self._layer.descriptor.size else None

    def _gap(self, before: int, entry: JournalEntry) -> bytes:
        """The bytes between a file of `before` bytes and the file of `entry`."""
        if entry.gap is not None:
            return entry.gap
        tar = self._layer.encoding is Encoding.TAR
        return tar_gap(before, entry.path and self._layer.prefix + entry.path, entry.size) if tar else b""

    def _complete_files(self, sink: Sink) -> list[tuple[JournalEntry, Content]]:
        if not self._journalled or self._journalled[-1].path is not None:
            return []
        found = []
        for entry in self._journalled[:-1]:
            content = sink.resume_file(str(entry.path), entry.size, True)
            if not content or not entry.sha256:
                return []
            found.append((entry, content))
        return found
