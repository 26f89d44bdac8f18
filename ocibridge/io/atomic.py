# SPDX-License-Identifier: Apache-2.0
"""Files that appear whole or not at all, and a lock between processes."""

from __future__ import annotations

import errno
import glob
import hashlib
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import IntegrityError, can_go_on, writing
from ..oci import Descriptor
from ..settings import READ_SIZE, MiB
from .content import ByteCount, Content, FileContent, chunks, fsync, ignore_bytes, place_of
from .locks import hold, take
from .positioned import PositionedWriter

STALE = 7 * 24 * 3600
"""Seconds after which what a killed process has left is given up."""
_ABANDONED = 3600
_TOKEN = re.compile("[0-9a-f]{16}")
_PART = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


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
        # For those who come upon it later; see `remove_left`.
        take(self._file.fileno())

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

    def publish(self, target: Path | None = None) -> None:
        """Give the file its final name, replacing what is there, once its bytes are on the disk.

        Args:
            target: The final path, where it was not known before.

        Raises:
            DestinationError: the file cannot be written or renamed.
        """
        self.target = target or self.target
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
    """Write a blob to `target`, through a part file in the folder two levels above.

    A part that a killed process has left is read again, and only the rest of `content` is opened. While another process
    writes the same blob, this one writes it beside.

    Raises:
        IntegrityError: `content` has another size or digest than `descriptor`.
        DestinationError: the file cannot be written.
    """
    folder = target.parents[2]
    with _Part(folder / f".ocibridge-{descriptor.digest[7:]}.part") as part:
        if part.mine:
            part.fill(target, descriptor, content, owner, on_bytes)
            return
    with PartFile(target, folder) as other:
        other.write_blob(descriptor, content, owner, on_bytes)
        other.publish()


class _Part:
    """A part file under a name that the next process finds again, locked against others."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.mine = False
        with writing(path):
            self._handle = os.open(path, _PART, 0o666)
            self.mine = take(self._handle) and self._is_there()

    def _is_there(self) -> bool:
        """Whether the file is still under its name: whoever had it before may have published it."""
        try:
            return os.path.samestat(os.fstat(self._handle), self._path.stat())
        except OSError:
            return False

    def fill(self, target: Path, descriptor: Descriptor, content: Content, owner: str, on_bytes: ByteCount) -> None:
        with writing(target):
            kept = os.fstat(self._handle).st_size
        if content.size != descriptor.size or kept > descriptor.size:
            kept = 0
        found = self._read(target, descriptor, content, kept, on_bytes)
        if found != descriptor.digest and kept:
            # What was left is of other bytes, or did not survive a power cut.
            on_bytes(-descriptor.size)
            found = self._read(target, descriptor, content, 0, on_bytes)
        if found != descriptor.digest:
            raise IntegrityError(
                f"the bytes given for the blob {descriptor.digest} ({descriptor.size} bytes) of {owner} are "
                f"{'of another size' if found is None else found}",
                hint="the source changed or is damaged; run the command again",
            )
        with writing(target):
            os.fsync(self._handle)
            self._path.replace(target)
            _sync_folder(target.parent)

    def _read(
        self, target: Path, descriptor: Descriptor, content: Content, kept: int, on_bytes: ByteCount
    ) -> str | None:
        """The digest of what is kept and the rest of `content` together; None where the size is not the right one."""
        if content.size != descriptor.size:
            return None
        digest = hashlib.sha256()
        with writing(target):
            os.ftruncate(self._handle, kept)
        filler = PositionedWriter(self._handle, kept=kept)
        sources: list[Content] = [FileContent(self._path, 0, kept)] if kept else []
        for source in (*sources, content):
            with source.open(filler.done) as reader:
                for piece in chunks(reader, min(descriptor.size + 1, READ_SIZE)):
                    digest.update(piece)
                    with writing(target):
                        filler.write(piece, place_of(reader))
                    on_bytes(len(piece))
                    if filler.done > descriptor.size:
                        return None
        return "sha256:" + digest.hexdigest() if filler.done == descriptor.size else None

    def __enter__(self) -> _Part:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, trace: object) -> None:
        if exc is not None and self.mine and not (can_go_on(exc) and os.fstat(self._handle).st_size >= MiB):
            with suppress(OSError):
                self._path.unlink()
        os.close(self._handle)


def check_place(path: Path) -> None:
    """Find out before long work what cannot be written after it.

    Raises:
        DestinationError: there is no folder for it, or nobody may write there.
    """
    with writing(path):
        if not path.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not os.access(path.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def remove_left(target: Path) -> None:
    """Remove what killed processes have left of a file under temporary names (`PartFile`)."""
    stem = f".{target.name[:100]}.ocibridge-"
    with suppress(OSError):
        for path in target.parent.glob(f"{glob.escape(stem)}*.part"):
            if _TOKEN.fullmatch(path.name[len(stem) : -len(".part")]):
                # The hour is for file systems that know no locks.
                with suppress(OSError), open(path, "r+b") as file:
                    if time.time() - path.stat().st_mtime > _ABANDONED and take(file.fileno()):
                        path.unlink()


def sweep(folder: Path) -> None:
    """Remove the parts that nobody has touched for `STALE` seconds."""
    with suppress(OSError):
        for path in folder.glob(".*ocibridge-*.part"):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > STALE:
                    path.unlink()


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
            hold(file.fileno())
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
