# SPDX-License-Identifier: Apache-2.0
"""An OCI image layout as one tar file: `oci-archive:FILE` (image-spec, image-layout.md), the form that skopeo has.

Nothing is unpacked: a blob is a range of the file. A push writes a new archive beside the old one, and puts it in place
at the end of `push_manifest`: a manifest whose push has returned is stored whatever happens afterwards, and a push that
fails leaves the old file as it was. The price is that each pushed manifest copies the blobs that are already there,
unless several are pushed in one `batch`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import DestinationError, FormatError, IntegrityError, NotFound, OcibridgeError, StoreError, reading
from ..io.atomic import AtomicFile, hidden_path, remove_left
from ..io.content import ByteCount, BytesContent, Content, FileContent, ignore_bytes
from ..io.locks import locked
from ..layers.tar import BLOCK, DIRECTORY, END, tar_header
from ..oci import Descriptor, parse_digest
from ..settings import DEFAULT_LIMITS, Limits
from .base import Capabilities
from .imageindex import BLOBS, INDEX, LAYOUT_FILE, OCI_LAYOUT, ImageIndex, ImageLayout, manifest_entry
from .tarlayout import read_layout

_Stamp = tuple[int, int, int, int]


class ArchiveStore(ImageLayout):
    """An image layout in a tar file. Blobs are pushed one after the other.

    The same pushes give the same bytes: `oci-layout`, the folders, the blobs in the order pushed, `index.json`.

    Args:
        path: The file.
        limits: See `ocibridge.settings.Limits`.
        create: Whether the file may be absent; the first pushed manifest makes it.

    Raises:
        NotFound: there is no such file, and `create` is false.
        FormatError: the file is no tar archive of an image layout of version 1, or could be read in two ways.
        SourceError: it cannot be read.
    """

    @property
    def capabilities(self) -> Capabilities:
        """Blobs are pushed one after the other."""
        return Capabilities(self.name, parallel=False)

    def __init__(self, path: str | Path, limits: Limits = DEFAULT_LIMITS, create: bool = False) -> None:
        self.path = Path(path)
        self.name = f"oci-archive:{self.path}"
        self.limits = limits
        self._stored: dict[str, Content] = {}
        self._part: AtomicFile | None = None
        self._pending: dict[str, FileContent] = {}
        self._image_index = ImageIndex()
        self._batched = False
        self._stamp = _stamp(self.path)
        if self._stamp:
            self._scan()
        elif not create:
            raise NotFound(f"there is no archive {self.name}", hint="check the path, or push something to it first")

    # Reading.

    def _scan(self) -> None:
        """Take in the archive as it is at one moment, though other processes may replace it meanwhile."""
        while True:
            stamp = _stamp(self.path)
            try:
                self._take_in()
            except OcibridgeError:
                if _stamp(self.path) == stamp:
                    raise
            else:
                if _stamp(self.path) == stamp:
                    self._stamp = stamp
                    return

    def _take_in(self) -> None:
        with reading(self.path):
            if not self.path.is_file():
                raise FormatError(f"{self.path} is not a file", hint="write oci:DIR for a layout that is a folder")
        self._image_index, blobs = read_layout(FileContent(self.path), str(self.path), self.limits)
        self._stored = dict(blobs)

    def _refresh(self) -> None:
        # Another process may have put a new archive in place of the one whose offsets are known.
        if self._part is None and self._stamp and _stamp(self.path) != self._stamp:
            self._scan()

    def _index(self) -> ImageIndex:
        self._refresh()
        return self._image_index

    def _blob(self, digest: str) -> Content | None:
        self._refresh()
        digest = parse_digest(digest, self.name)
        return self._pending.get(digest) if self._part else self._stored.get(digest)

    # Writing.

    def push_blob(self, descriptor: Descriptor, content: Content, on_bytes: ByteCount = ignore_bytes) -> None:
        """Append a blob to the archive in preparation; one that is there with the right size is left alone.

        Raises:
            IntegrityError: the content does not have the digest or size of the descriptor, or the archive has a blob of
                this digest with another size.
            DestinationError: it cannot be written.
        """
        if self.has_blob(descriptor):
            return
        if self._blob(descriptor.digest):
            raise IntegrityError(
                f"{self.name} has the blob {descriptor.digest} with another size than {descriptor.size} bytes",
                hint="the archive is damaged; remove it and push again",
            )
        part = self._prepare()
        start = part.size
        part.write(tar_header(f"{BLOBS}/{descriptor.digest[7:]}", descriptor.size))
        first = part.size
        try:
            part.write_blob(descriptor, content, self.name, on_bytes)
            part.write(bytes(-part.size % BLOCK))
        except BaseException:
            self._take_back(part, start)
            raise
        self._pending[descriptor.digest] = FileContent(part.path, first, descriptor.size)

    def push_manifest(self, data: bytes, media_type: str, tag: str | None) -> Descriptor:
        """Store a manifest, list it in `index.json`, and put the new archive in the place of the old one.

        Raises:
            FormatError: the manifest is no JSON object.
            StoreError: another process has changed the archive meanwhile.
            DestinationError: it cannot be written.
        """
        descriptor, entry = manifest_entry(data, media_type, self.name, self.limits)
        with self.batch():
            self.push_blob(descriptor, BytesContent(data))
            self._change(self._index().with_entry(entry, tag))
        return descriptor

    def delete(self, version: str) -> None:
        """Take a tag, or a digest with its tags, off `index.json`; blobs stay in the archive."""
        with self.batch():
            self._change(self._delisted(version))

    @contextmanager
    def batch(self) -> Iterator[None]:
        """The new archive is put in the place of the old one at the end of the block; of a failed block nothing stays.

        Raises:
            StoreError: another process has changed the archive meanwhile.
            DestinationError: it cannot be written.
        """
        if self._batched:
            yield
            return
        before = self._index()
        self._batched = True
        try:
            yield
            if self._part:
                self._commit(self._image_index.to_json(self.name))
        except BaseException:
            self.close()
            self._image_index = before
            raise
        finally:
            self._batched = False

    def _change(self, index: ImageIndex) -> None:
        if index.to_json(self.name) != self._index().to_json(self.name):
            self._prepare()
            self._image_index = index

    def _prepare(self) -> AtomicFile:
        """The archive in preparation, which holds all blobs of the present one."""
        if self._part is None:
            remove_left(self.path)
            part = AtomicFile(self.path)
            try:
                part.write(_member(OCI_LAYOUT, LAYOUT_FILE) + _folder("blobs") + _folder(BLOBS))
                blobs = {}
                for digest, content in self._stored.items():
                    part.write(tar_header(f"{BLOBS}/{digest[7:]}", content.size))
                    blobs[digest] = FileContent(part.path, part.size, content.size)
                    with content.open() as reader:
                        part.copy(reader)
                    part.write(bytes(-part.size % BLOCK))
            except BaseException:
                part.discard()
                raise
            self._part, self._pending = part, blobs
        return self._part

    def _take_back(self, part: AtomicFile, size: int) -> None:
        try:
            part.truncate(size)
        except DestinationError:
            self.close()

    def _commit(self, index: bytes) -> None:
        part = self._prepare()
        part.write(_member(INDEX, index) + END)
        with locked(hidden_path(self.path, "ocibridge.lock")):
            if _stamp(self.path) != self._stamp:
                raise StoreError(
                    f"{self.name} was changed by another process during the push",
                    hint="run the command again; what the other process stored is kept",
                )
            part.publish()
            self._stamp = _stamp(self.path)
        self._stored = {
            digest: FileContent(self.path, content.offset, content.size) for digest, content in self._pending.items()
        }
        self._part, self._pending = None, {}

    def close(self) -> None:
        """Discard what was pushed since the last manifest."""
        if self._part:
            self._part.discard()
            self._part, self._pending = None, {}


def _member(name: str, data: bytes) -> bytes:
    return tar_header(name, len(data)) + data + bytes(-len(data) % BLOCK)


def _folder(name: str) -> bytes:
    header = bytearray(tar_header(name + "/", 0))
    header[100:108] = b"0000755\0"
    header[156:157] = DIRECTORY
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


def _stamp(path: Path) -> _Stamp | None:
    """What changes when another file takes the place of `path`; None where there is none."""
    with reading(path):
        try:
            status = path.stat()
        except FileNotFoundError:
            return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
