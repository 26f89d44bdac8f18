# SPDX-License-Identifier: Apache-2.0
"""An OCI image layout as a folder (image-spec, image-layout.md).

Temporary files lie in the root of the layout as `.ocibridge-*.part`: other tools look for blobs under `blobs/`, and
some refuse a layout with a file there that is no blob.
"""

from __future__ import annotations

import stat
from pathlib import Path

from ..errors import DestinationError, FormatError, LimitError, NotFound, reading, writing
from ..io.atomic import AtomicFile, sweep, verified_write, write_file
from ..io.content import BytesContent, Content, FileContent
from ..io.locks import locked
from ..io.readers import ByteCount, ignore_bytes
from ..oci import Descriptor, parse_digest, parse_json
from ..settings import DEFAULT_LIMITS, Limits
from .base import BlobStream, Capabilities
from .imageindex import BLOBS, INDEX, LAYOUT_FILE, OCI_LAYOUT, ImageIndex, ImageLayout, manifest_entry


class LayoutStore(ImageLayout):
    """An image layout in a folder; several processes may push to it at once.

    Args:
        path: The folder.
        limits: See `ocibridge.settings.Limits`.
        create: Make the layout if the folder is absent or empty.

    Raises:
        NotFound: there is no such folder, and `create` is false.
        FormatError: the folder is no image layout of version 1.
        DestinationError: the layout cannot be made.

    Example:
        >>> with LayoutStore("models", create=True) as store:  # doctest: +SKIP
        ...     store.tags()
        []
    """

    def __init__(self, path: str | Path, limits: Limits = DEFAULT_LIMITS, create: bool = False) -> None:
        self.path = Path(path)
        self.name = f"oci:{self.path}"
        self.limits = limits
        self._blobs = self.path / BLOBS
        if create:
            self._create()
        self._check()

    def _create(self) -> None:
        with writing(self.path):
            if self.path.exists() and not self.path.is_dir():
                raise DestinationError(f"cannot write {self.name}: {self.path} is no folder", hint="name a folder")
            self.path.mkdir(parents=True, exist_ok=True)
            with locked(self._lock):
                strange = not self._file(OCI_LAYOUT) and any(
                    not child.name.startswith(".ocibridge") for child in self.path.iterdir()
                )
                if strange:
                    raise FormatError(
                        f"the folder {self.path} is neither empty nor an OCI image layout",
                        hint="name a new folder, so that nothing in this one is mixed with blobs",
                    )
                if self._file(OCI_LAYOUT):
                    self._check_version()
                else:
                    write_file(self.path / OCI_LAYOUT, LAYOUT_FILE, self.path)
                self._blobs.mkdir(parents=True, exist_ok=True)
                if not self._file(INDEX):
                    self._write_index(ImageIndex())

    def _check(self) -> None:
        with reading(self.path):
            there = self.path.exists()
        if not there:
            raise NotFound(f"there is no layout {self.name}", hint="check the path, or push something to it first")
        layout = self._file(OCI_LAYOUT)
        if layout is None or self._file(INDEX) is None:
            missing = OCI_LAYOUT if layout is None else INDEX
            raise FormatError(
                f"{self.path} is not an OCI image layout (it has no file {missing})",
                hint="name the folder that has oci-layout, index.json and blobs in it",
            )
        self._check_version()

    def _check_version(self) -> None:
        check_layout_file(self._small(OCI_LAYOUT), f"{self.path / OCI_LAYOUT}")

    @property
    def _lock(self) -> Path:
        return self.path / ".ocibridge.lock"

    def _file(self, name: str) -> FileContent | None:
        path = self.path / name
        try:
            status = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            with reading(path):
                raise
        return FileContent(path, 0, status.st_size, lasting=True) if stat.S_ISREG(status.st_mode) else None

    def _small(self, name: str) -> bytes:
        # Opened once: between two looks at the path another process may have put another file there.
        path, limit = self.path / name, self.limits.metadata
        with reading(path), open(path, "rb") as file:
            data = file.read(limit + 1)
        if len(data) > limit:
            raise LimitError(f"{path} has more than {limit} bytes")
        return data

    def _index(self) -> ImageIndex:
        return ImageIndex.parse(self._small(INDEX), str(self.path / INDEX), self.limits)

    def _write_index(self, index: ImageIndex) -> None:
        write_file(self.path / INDEX, index.to_json(str(self.path / INDEX)), self.path)

    def _blob(self, digest: str) -> FileContent | None:
        return self._file(f"{BLOBS}/{parse_digest(digest, self.name)[7:]}")

    def push_blob(self, descriptor: Descriptor, content: Content, on_bytes: ByteCount = ignore_bytes) -> None:
        """Store a blob; one that is there with the right size is left alone.

        Raises:
            IntegrityError: the content does not have the digest or size of the descriptor.
            DestinationError: it cannot be written.
        """
        if self.has_blob(descriptor):
            return
        with writing(self._blobs):
            self._blobs.mkdir(parents=True, exist_ok=True)
        verified_write(self._blobs / descriptor.digest[7:], descriptor, content, self.name, on_bytes)

    @property
    def capabilities(self) -> Capabilities:
        """Blobs are pushed from several threads, and may be streamed."""
        return Capabilities(self.name, streams=True, folder=self.path)

    def is_new(self) -> bool:
        """Return whether there is no manifest and no blob."""
        with reading(self._blobs):
            return not self._index().entries and not any(self._blobs.iterdir())

    def stream_blob(self, stream: BlobStream, key: str | None, on_bytes: ByteCount = ignore_bytes) -> bool:
        """Write a blob while it is hashed; see `StreamPusher.stream_blob`.

        Raises:
            DestinationError: it cannot be written.
        """
        with writing(self._blobs):
            self._blobs.mkdir(parents=True, exist_ok=True)
        with AtomicFile(self._blobs, self.path) as part:
            for piece in stream:
                part.write(piece)
                on_bytes(len(piece))
            part.publish(self._blobs / stream.finish().digest[7:])
        return True

    def push_manifest(self, data: bytes, media_type: str, tag: str | None) -> Descriptor:
        """Store a manifest and list it in `index.json`.

        A manifest that had the tag before stays listed without it. Without a tag, the manifest is listed once.

        Raises:
            FormatError: the manifest is no JSON object, or `index.json` is not valid.
            DestinationError: it cannot be written.
        """
        descriptor, entry = manifest_entry(data, media_type, self.name, self.limits)
        self.push_blob(descriptor, BytesContent(data))
        with locked(self._lock):
            self._write_index(self._index().with_entry(entry, tag))
        sweep(self.path)
        return descriptor

    def delete(self, version: str) -> None:
        """Take a tag, or a digest with its tags, off `index.json`; blobs stay in the layout.

        Raises:
            NotFound: it is not there.
            DestinationError: `index.json` cannot be written.
        """
        with locked(self._lock):
            self._write_index(self._delisted(version))


def check_layout_file(data: bytes, owner: str) -> None:
    """Check the bytes of an `oci-layout` file (image-layout.md, "oci-layout file").

    Raises:
        FormatError: it is not valid, or of another major version than 1.
    """
    document = parse_json(data, owner, 64 * 1024)
    version = document.get("imageLayoutVersion") if isinstance(document, dict) else None
    if not isinstance(version, str) or not version.startswith("1."):
        raise FormatError(f"{owner} does not say imageLayoutVersion 1.x", hint="only layouts of version 1 are known")
