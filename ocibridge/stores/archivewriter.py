# SPDX-License-Identifier: Apache-2.0
"""Writing an archive from front to back: blobs as they come, `index.json` last; nothing is rewritten.

The same blobs and entries give the same bytes. The tag of a manifest may be a whole reference, `HOST/REPOSITORY:TAG`,
as skopeo and containerd write it, so that one archive holds many repositories.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path

from ..errors import IntegrityError
from ..io.content import Concatenation, Content
from ..io.existing import TargetRules
from ..io.hasher import BackgroundHasher
from ..io.incoming import read_pieces
from ..io.positioned import check_free_space
from ..io.readers import ByteCount, ignore_bytes
from ..layers.tar import BLOCK, DIRECTORY, END, tar_header
from ..oci import Descriptor
from .imageindex import BLOBS, INDEX, LAYOUT_FILE, OCI_LAYOUT, ImageIndex
from .tarlayout import Slice
from .volumewriter import VolumeWriter, Written


class ArchiveWriter:
    """Writes an archive, whole or in volumes; what is there under its name stays until `publish`.

    What an earlier writer has left unfinished is taken over as far as it is the same: blobs are read there before they
    are asked for elsewhere, and hashed like all others.

    Args:
        path: The file.
        volume_size: Length of a volume in bytes; None writes one file.
        rules: What may happen to what exists there.
        update: Whether this becomes the new state of the archive `path`, as other tools write it: with entries for
            folders; other files are let be.

    Attributes:
        blobs: Offset and size of the bytes of each blob, by its digest.

    Raises:
        DestinationError: it cannot be written, is there already, or is being written by another process.
        LimitError: volumes of this size are too small.
    """

    def __init__(
        self,
        path: Path,
        volume_size: int | None = None,
        *,
        rules: TargetRules = TargetRules(),
        update: bool = False,
    ) -> None:
        self.name = f"oci-archive:{path}"
        self.blobs: dict[str, tuple[int, int]] = {}
        self._path = path
        self._update = update
        self._hasher = BackgroundHasher(thread=True)
        try:
            self._file = VolumeWriter(path, volume_size, self._hasher, rules, alone=not update)
        except BaseException:
            self._hasher.close()
            raise
        try:
            self._file.write(_member(OCI_LAYOUT, LAYOUT_FILE))
            if update:
                self._file.write(_folder("blobs") + _folder(BLOBS))
        except BaseException as exc:
            self.close(exc)
            raise

    @property
    def kept(self) -> int:
        """Bytes that an earlier writer had left, and that were taken over."""
        return self._file.kept

    @property
    def temporary(self) -> Path:
        """The file that is being written, where it is one."""
        return self._file.temporary

    def bytes_left_over(self) -> int:
        """Bytes that an earlier writer has left behind what is written so far."""
        return self._file.ahead(sys.maxsize).size

    def need(self, sizes: Iterable[int]) -> None:
        """Check the free space for blobs of these sizes; see `check_free_space`."""
        size = sum(BLOCK + each + -each % BLOCK for each in sizes)
        check_free_space(self._path.absolute().parent, str(self._path), size, self.bytes_left_over())

    def add(self, descriptor: Descriptor, content: Content, on_bytes: ByteCount = ignore_bytes) -> None:
        """Append a blob; one that is there is left alone.

        After a failure, an `update` is as it was before; another archive cannot be used any more.

        Raises:
            IntegrityError: the content does not have the digest or size of the descriptor.
            DestinationError: it cannot be written.
        """
        if descriptor.digest in self.blobs:
            return
        start = self._file.written
        left = self._begin(descriptor.digest, descriptor.size)
        try:
            found = self._copy(_after(left, content, descriptor), descriptor.size, on_bytes)
            if found != descriptor.digest:
                cause = "what an interrupted run had left is damaged, or the source" if left.size else "the source"
                raise IntegrityError(
                    f"the bytes given for the blob {descriptor.digest} ({descriptor.size} bytes) of {self.name} "
                    "are others",
                    hint=f"{cause} changed or is damaged; run the command again",
                )
        except BaseException:
            del self.blobs[descriptor.digest]
            if self._update:
                self._file.truncate(start)
            raise

    def take_over(self, digest: str, content: Content) -> None:
        """Append a blob of the archive that this one replaces; whoever reads it verifies it."""
        self._begin(digest, content.size)
        self._copy(content, content.size, ignore_bytes)

    def _begin(self, digest: str, size: int) -> Content:
        """Write the header of a blob; what an earlier writer has left of its bytes."""
        self._file.write(tar_header(f"{BLOBS}/{digest[7:]}", size))
        self.blobs[digest] = (self._file.written, size)
        return self._file.ahead(size)

    def _copy(self, content: Content, size: int, on_bytes: ByteCount) -> str | None:
        """Write the bytes of a blob, and give their digest; None where they are not `size` bytes."""
        digest, end = hashlib.sha256(), self._file.written + size
        with content.open() as reader:
            for piece in read_pieces(reader, size):
                if self._file.written + len(piece) > end:
                    break
                earlier = self._hasher.pending
                self._hasher.update(digest, piece)
                self._file.write(piece)
                on_bytes(len(piece))
                self._hasher.wait(left=max(0, self._hasher.pending - earlier))
            else:
                end -= self._file.written
        self._hasher.wait()
        if end:
            return None
        self._file.write(bytes(-size % BLOCK))
        return "sha256:" + digest.hexdigest()

    def publish(self, index: ImageIndex) -> list[Written]:
        """Write `index.json`, and give the file or its volumes their names.

        Raises:
            DestinationError: it cannot be written.
        """
        self._file.write(_member(INDEX, index.to_json(self.name)) + END)
        written = self._file.publish()
        self._hasher.close()
        return written

    def close(self, exc: BaseException | None = None) -> None:
        """Remove what was not published; after an error, leave what another writer can resume."""
        self._hasher.close()
        if exc is not None and self._file.worth_keeping(exc):
            self._file.leave()
        else:
            self._file.close()

    def __enter__(self) -> ArchiveWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, *_: object) -> None:
        self.close(exc)


def _after(left: Content, content: Content, descriptor: Descriptor) -> Content:
    """A blob of which the start is there already."""
    if not left.size:
        return content
    rest = descriptor.size - left.size
    return Concatenation([left, Slice(content, left.size, rest, descriptor.digest)] if rest else [left])


def _member(name: str, data: bytes) -> bytes:
    return tar_header(name, len(data)) + data + bytes(-len(data) % BLOCK)


def _folder(name: str) -> bytes:
    header = bytearray(tar_header(name + "/", 0))
    header[100:108] = b"0000755\0"
    header[156:157] = DIRECTORY
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)
