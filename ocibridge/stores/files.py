# SPDX-License-Identifier: Apache-2.0
"""Files that appear whole or not at all, and a lock between processes."""

from __future__ import annotations

import hashlib
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..content import Content, chunks, fsync
from ..errors import IntegrityError, writing
from ..model import ByteCount, ignore_bytes
from ..oci import Descriptor
from ..settings import READ_SIZE


class PartFile:
    """A file under a temporary name until `publish`; as a context manager it is discarded unless published.

    Args:
        target: Its final path.
        folder: Where it is written, on the file system of `target`; None takes the folder of `target`, with the name
            of `target` in the temporary one.

    Raises:
        DestinationError: the file cannot be made.
    """

    def __init__(self, target: Path, folder: Path | None = None) -> None:
        self.target = target
        stem = f".{target.name[:100]}." if folder is None else "."
        self.path = (folder or target.parent) / f"{stem}ocibridge-{secrets.token_hex(8)}.part"
        self.size = 0
        with writing(target):
            self._file = open(self.path, "xb")

    def write(self, data: bytes | memoryview) -> None:
        """Append `data`.

        Raises:
            DestinationError: the disk is full, say.
        """
        with writing(self.target):
            self._file.write(data)
        self.size += len(data)

    def write_blob(self, descriptor: Descriptor, content: Content, owner: str, on_bytes: ByteCount) -> None:
        """Append a blob, hashing on the way.

        Raises:
            IntegrityError: `content` has another size or digest than `descriptor`.
            DestinationError: the disk is full, say.
        """
        found = self._copy(descriptor.size, content, on_bytes)
        if found != descriptor.digest:
            raise IntegrityError(
                f"the bytes given for the blob {descriptor.digest} ({descriptor.size} bytes) of {owner} are "
                f"{'of another size' if found is None else found}",
                hint="the source changed or is damaged; run the command again",
            )

    def _copy(self, size: int, content: Content, on_bytes: ByteCount) -> str | None:
        """Append `content` and return its digest, or None (as early as possible) where its size is not `size`."""
        if content.size != size:
            return None
        digest = hashlib.sha256()
        end = self.size + size
        with content.open() as reader:
            for chunk in chunks(reader, min(size + 1, READ_SIZE)):
                if self.size + len(chunk) > end:
                    return None
                digest.update(chunk)
                self.write(chunk)
                on_bytes(len(chunk))
        return "sha256:" + digest.hexdigest() if self.size == end else None

    def copy(self, content: Content) -> None:
        """Append bytes that are verified by whoever reads them.

        Raises:
            SourceError: they cannot be read.
            DestinationError: the disk is full, say.
        """
        with content.open() as reader:
            for chunk in chunks(reader):
                self.write(chunk)

    def truncate(self, size: int) -> None:
        """Take back what was written after the first `size` bytes.

        Raises:
            DestinationError: the file cannot be changed.
        """
        with writing(self.target):
            self._file.seek(size)
            self._file.truncate()
        self.size = size

    def flush(self) -> None:
        """Let readers of `path` see all that was written.

        Raises:
            DestinationError: the disk is full, say.
        """
        with writing(self.target):
            self._file.flush()

    def publish(self) -> None:
        """Give the file its final name, replacing what is there, once its bytes are on the disk.

        Raises:
            DestinationError: the file cannot be written or renamed.
        """
        with writing(self.target):
            fsync(self._file)
            self._file.close()
            self.path.replace(self.target)
            _sync_folder(self.target.parent)

    def discard(self) -> None:
        """Remove the file; harmless after `publish`."""
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            self.path.unlink()

    def __enter__(self) -> PartFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()


def write_file(target: Path, data: bytes, folder: Path | None = None) -> None:
    """Write a small file so that it appears whole or not at all (see `PartFile`).

    Raises:
        DestinationError: it cannot be written.
    """
    with PartFile(target, folder) as part:
        part.write(data)
        part.publish()


def verified_write(
    target: Path, descriptor: Descriptor, content: Content, owner: str, on_bytes: ByteCount = ignore_bytes
) -> None:
    """Write a blob to `target`, through a part file in the folder two levels above (see `PartFile.write_blob`).

    Raises:
        IntegrityError: `content` has another size or digest than `descriptor`.
        DestinationError: the file cannot be written.
    """
    with PartFile(target, target.parents[2]) as part:
        part.write_blob(descriptor, content, owner, on_bytes)
        part.publish()


def _sync_folder(folder: Path) -> None:
    # A folder can be opened and synced on POSIX systems only; elsewhere a rename is as durable as it gets.
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path` (made and removed here) against other threads and processes of this machine.

    Raises:
        DestinationError: the lock file cannot be made.
    """
    while True:
        with writing(path):
            file = open(path, "ab")
            _lock(file.fileno())
        # Whoever held the lock before has removed the file; a lock on a removed file keeps nobody out.
        with suppress(OSError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                break
        file.close()
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        file.close()


if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_LOCK, 1)
else:
    try:
        import fcntl
    except ImportError:  # a system without file locks has no second process either

        def _lock(handle: int) -> None:
            """Nothing to keep out."""
    else:

        def _lock(handle: int) -> None:
            # Some network file systems know no locks; a tag lost there needs two writers in the same instant.
            with suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_EX)
