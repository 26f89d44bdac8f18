# SPDX-License-Identifier: Apache-2.0
"""An OCI image layout (image-spec, image-layout.md) in one tar file or its volumes: `oci-archive:FILE`, as skopeo's.

Nothing is unpacked: a blob is a range of the file. A push writes a new archive next to the old one, and replaces it
at the end of `push_manifest`: a manifest whose push has returned is stored whatever happens afterwards, and a push that
fails leaves the old file as it was. The price is that each pushed manifest copies the blobs that are already there,
unless several are pushed in one `batch`. Volumes are written at once, by an `ArchiveWriter`, and not added to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..errors import DestinationError, IntegrityError, InvalidReference, NotFound, OcibridgeError, StoreError, reading
from ..io.content import BytesContent, Content, FileContent
from ..io.readers import ByteCount, ignore_bytes
from ..oci import Descriptor, RegistryReference, parse_digest, parse_reference
from ..paths import show
from ..settings import DEFAULT_LIMITS, Limits
from .archivewriter import ArchiveWriter
from .base import Capabilities, Store
from .imageindex import Entry, ImageIndex, ImageLayout, manifest_entry
from .tarlayout import read_layout
from .view import RepositoryView
from .volumes import Volumes, is_there

_Stamp = tuple[int, int, int, int]


class ArchiveStore(ImageLayout):
    """An image layout in a tar file, or in its volumes. Blobs are pushed one after the other.

    The same pushes give the same bytes: `oci-layout`, the folders, the blobs in the order pushed, `index.json`.

    Args:
        path: The file, or what it would be called if it were not split.
        limits: See `ocibridge.settings.Limits`.
        create: Whether the file may be absent; the first pushed manifest makes it.
        short_tags: Whether `TAG` finds the one `HOST/REPOSITORY:TAG`, where no tag is called so.

    Attributes:
        volumes: The files; None where there is none yet.

    Raises:
        NotFound: there is no such file, and `create` is false; or a volume is missing.
        FormatError: the file is no tar archive of an image layout of version 1, or could be read in two ways.
        IntegrityError: it ends too early.
        SourceError: it cannot be read.
    """

    def __init__(
        self, path: str | Path, limits: Limits = DEFAULT_LIMITS, create: bool = False, short_tags: bool = False
    ) -> None:
        self.path = Path(path)
        self.name = f"oci-archive:{self.path}"
        self.limits = limits
        self.volumes: Volumes | None = None
        self._short_tags = short_tags
        self._stored: dict[str, Content] = {}
        self._published = ImageIndex()
        self._pending: ImageIndex | None = None
        self._writer: ArchiveWriter | None = None
        self._batched = False
        self._stamp: _Stamp | None = None
        if not create or is_there(self.path):
            self._scan()

    @property
    def capabilities(self) -> Capabilities:
        """Blobs are pushed one after the other."""
        return Capabilities(self.name, parallel=False)

    @property
    def entries(self) -> Sequence[Entry]:
        """The entries of `index.json`, as they are."""
        return self._index().entries

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
        self.volumes = Volumes(self.path)
        try:
            self._published, blobs = read_layout(self.volumes.content, str(self.path), self.limits)
        except IntegrityError:
            hint = "copy it again"
            if self.volumes.split:
                hint = "the last volume was not copied whole, or one behind it is missing"
            raise IntegrityError(f"{self.path} ends too early", hint=hint) from None
        self._stored = dict(blobs)

    def _refresh(self) -> None:
        # Another process may have put a new archive in place of the one whose offsets are known.
        if self._writer is None and self._stamp and _stamp(self.path) != self._stamp:
            self._scan()

    def _index(self) -> ImageIndex:
        self._refresh()
        return self._pending or self._published

    def _blob(self, digest: str) -> Content | None:
        self._refresh()
        digest = parse_digest(digest, self.name)
        if self._writer is None:
            return self._stored.get(digest)
        place = self._writer.blobs.get(digest)
        return FileContent(self._writer.temporary, *place) if place else None

    def _read_manifest(self, version: str) -> tuple[bytes, str | None]:
        return super()._read_manifest(self._whole_tag(version) if self._short_tags else version)

    def _whole_tag(self, tag: str) -> str:
        """The one tag that ends with `:TAG`."""
        tags = [] if tag.startswith("sha256:") else self.tags()
        names = [] if tag in tags else [name for name in tags if name.endswith(":" + tag)]
        if len(names) > 1:
            raise NotFound(
                f"{self.name} has the tag {show(tag)} in {len(names)} repositories",
                hint=f"name one of them: {self.name}:{names[0]}",
            )
        return names[0] if names else tag

    # Writing.

    def push_blob(self, descriptor: Descriptor, content: Content, on_bytes: ByteCount = ignore_bytes) -> None:
        """Append a blob to the archive in preparation; one that is there with the right size is left alone.

        Raises:
            IntegrityError: the content does not have the digest or size of the descriptor, or the archive has a blob of
                this digest with another size.
            StoreError: the archive is in volumes.
            DestinationError: it cannot be written, or another process is writing it.
        """
        if self.has_blob(descriptor):
            return
        if self._blob(descriptor.digest):
            raise IntegrityError(
                f"{self.name} has the blob {descriptor.digest} with another size than {descriptor.size} bytes",
                hint="the archive is damaged; remove it and push again",
            )
        try:
            self._writer_for_update().add(descriptor, content, on_bytes)
        except DestinationError:
            self.close()
            raise

    def push_manifest(self, data: bytes, media_type: str, tag: str | None) -> Descriptor:
        """Store a manifest, list it in `index.json`, and put the new archive in the place of the old one.

        Raises:
            FormatError: the manifest is no JSON object.
            StoreError: another process has changed the archive meanwhile, or it is in volumes.
            DestinationError: it cannot be written.
        """
        descriptor, entry = manifest_entry(data, media_type, self.name, self.limits)
        with self.batch():
            self.push_blob(descriptor, BytesContent(data))
            self._change(lambda index: index.with_entry(entry, tag))
        return descriptor

    def delete(self, version: str) -> None:
        """Take a tag, or a digest with its tags, off `index.json`; blobs stay in the archive."""
        with self.batch():
            self._delisted(version)
            self._change(lambda index: index.without(version))

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
        self._batched = True
        try:
            yield
            if self._writer:
                self._commit(self._writer)
        except BaseException:
            self.close()
            raise
        finally:
            self._batched = False

    def _change(self, change: Callable[[ImageIndex], ImageIndex]) -> None:
        index = self._index()
        if change(index).to_json(self.name) != index.to_json(self.name):
            self._writer_for_update()
            self._pending = change(self._index())

    def _writer_for_update(self) -> ArchiveWriter:
        """Return the writer of the new archive; the first call creates it and copies all blobs of the existing archive.

        Raises:
            StoreError: the existing archive is split into volumes.
            DestinationError: the new archive cannot be written, or another process is writing it.
        """
        if self._writer is None:
            if self.volumes and self.volumes.split:
                raise StoreError(f"{self.name} is in volumes, and cannot be added to", hint="push to another file")
            writer = ArchiveWriter(self.path, update=True)
            try:
                if _stamp(self.path) != self._stamp:
                    self._scan()
                for digest, content in self._stored.items():
                    writer.take_over(digest, content)
            except BaseException:
                writer.close()
                raise
            self._writer = writer
        return self._writer

    def _commit(self, writer: ArchiveWriter) -> None:
        # Others of this program are kept out by the lock of what is being written.
        if _stamp(self.path) != self._stamp:
            raise StoreError(
                f"{self.name} was changed by another process during the push",
                hint="run the command again; what the other process stored is kept",
            )
        self._published = self._index()
        writer.publish(self._published)
        self._stamp = _stamp(self.path)
        self._stored = {digest: FileContent(self.path, *place) for digest, place in writer.blobs.items()}
        self._writer = self._pending = None

    def close(self) -> None:
        """Discard what was pushed since the last manifest."""
        if self._writer:
            self._writer.close()
            self._writer = self._pending = None


def open_archive(path: Path, limits: Limits = DEFAULT_LIMITS) -> Store:
    """Open the archive of `oci-archive:PATH` for reading.

    Args:
        path: A file; what one would be called that is there in volumes; or `FILE:HOST/REPOSITORY`, of such a file.
        limits: See `ocibridge.settings.Limits`.

    Raises:
        OcibridgeError: see `ArchiveStore`.
    """
    text = str(path)
    at = -1 if is_there(path) else text.find(":")
    while at > 0:
        if is_there(Path(text[:at])) and _is_repository(text[at + 1 :]):
            return RepositoryView(ArchiveStore(text[:at], limits), text[at + 1 :])
        at = text.find(":", at + 1)
    return ArchiveStore(path, limits, short_tags=True)


def _is_repository(text: str) -> bool:
    try:
        parsed = parse_reference(text)
    except InvalidReference:
        return False
    return isinstance(parsed, RegistryReference) and parsed.tag is None and parsed.digest is None


def _stamp(path: Path) -> _Stamp | None:
    """Identity of the file at `path`, which changes with the file; None if there is none."""
    with reading(path):
        try:
            status = path.stat()
        except FileNotFoundError:
            return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
