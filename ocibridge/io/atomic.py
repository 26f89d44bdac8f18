# SPDX-License-Identifier: Apache-2.0
"""Files that appear whole or not at all: written under a hidden temporary name, pushed to the disk, then renamed."""

from __future__ import annotations

import errno
import glob
import hashlib
import os
import secrets
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from ..errors import DestinationError, IntegrityError, can_resume, writing
from ..oci import Descriptor
from ..settings import READ_SIZE, MiB
from .content import Content, FileContent, read_all
from .locks import try_lock
from .positioned import PositionedWriter
from .readers import ByteCount, Reader, chunks, file_position, ignore_bytes

STALE = 7 * 24 * 3600
"""Seconds after which what a killed process has left is given up."""
KEEP = MiB
"""Bytes that make an unfinished file worth keeping."""
_ABANDONED = 3600
_LONGEST = 200
_START = 4096
_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


class InUseError(DestinationError):
    """Another process is writing the same temporary file."""


class AtomicFile:
    """A file under a temporary name until `publish`; as a context manager it is discarded unless published.

    The temporary file is locked as long as it is open, so that `sweep` of another process leaves it alone.

    Args:
        target: Its final path.
        folder: Where it is written, on the file system of `target`; None takes the folder of `target`, with the name
            of `target` in the temporary one.
        resume: Part of a temporary name that the next process finds again; as a context manager the file then stays
            after an error that another run may get over, if `KEEP` bytes are there. None takes a random name.
        mode: Permission bits, before the umask.

    Attributes:
        path: The temporary file.

    Raises:
        InUseError: another process is writing the temporary file of this name.
        DestinationError: the file cannot be made; from every method: it cannot be written.
    """

    def __init__(
        self, target: Path, folder: Path | None = None, *, resume: str | None = None, mode: int = 0o666
    ) -> None:
        self.target = target
        self._lasting = resume is not None
        self._mine = False
        end = f"ocibridge-{resume or secrets.token_hex(8)}.part"
        self.path = hidden_path(target, end) if folder is None else folder / f".{end}"
        with writing(target):
            self._handle: int | None = os.open(self.path, _FLAGS if resume else _FLAGS | os.O_EXCL, mode)
        try:
            self._begin(self._handle)
        except BaseException:
            self.leave()
            raise

    def _begin(self, handle: int) -> None:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            raise DestinationError(f"{self.path} is no file of this program", hint="remove it")
        if not try_lock(handle, self.path):
            raise InUseError(f"another process is writing {self.target}", hint="wait for it, or name another file")
        self._mine = True
        self._length = os.fstat(handle).st_size
        self._resume(handle, 0)

    def _resume(self, handle: int, size: int) -> None:
        self._start = size
        self._writer = PositionedWriter(handle, size)

    @property
    def size(self) -> int:
        """Bytes that were written, or taken over from an earlier process."""
        return self._start + self._writer.done

    @property
    def left(self) -> int:
        """Bytes after the first `size` that an earlier process has left; nobody knows whether they are right."""
        return max(0, self._length - self.size)

    def write(self, data: bytes | memoryview, source: tuple[int, int] | None = None) -> None:
        """Append `data`; for `source` see `ocibridge.io.positioned.PositionedWriter.write`."""
        with writing(self.target):
            self._writer.write(data, source)

    def copy(self, reader: Reader) -> None:
        """Append all that `reader` gives."""
        for piece in chunks(reader):
            self.write(piece)

    def keep_if_equal(self, data: memoryview) -> int:
        """Keep leftover bytes that equal the start of `data`, so that they need not be written again.

        The method compares as many bytes as `data` and the leftover both have, and keeps either all of these or none.
        If it keeps less than the whole of `data`, it truncates the file after the kept bytes.

        Args:
            data: The bytes to be written next.

        Returns:
            The number of leading bytes of `data` that were kept; the caller writes only the others.
        """
        count = min(len(data), self.left)
        if not count:
            return 0
        same = count if read_all(FileContent(self.path, self.size, count)) == data[:count] else 0
        if same < len(data):
            self.truncate(self.size + same)
        elif self._handle is not None:
            self._resume(self._handle, self.size + same)
        return same

    def write_blob(
        self, descriptor: Descriptor, content: Content, owner: str, on_bytes: ByteCount = ignore_bytes
    ) -> None:
        """Append a blob. What is `left` of it is read again, and only the rest of `content` is opened.

        Args:
            descriptor: Size and digest of the blob.
            content: Its bytes.
            owner: The store, for messages.
            on_bytes: Called with the number of bytes that were read.

        Raises:
            IntegrityError: `content` has another size or digest than `descriptor`.
        """
        start, left = self.size, self.left
        if content.size != descriptor.size or left > descriptor.size:
            self.truncate(start)
            left = 0
        found = self._append(descriptor.size, content, on_bytes)
        if found != descriptor.digest and left:
            # What was left is of other bytes, or did not survive a power cut.
            on_bytes(-descriptor.size)
            self.truncate(start)
            found = self._append(descriptor.size, content, on_bytes)
        if found != descriptor.digest:
            raise IntegrityError(
                f"the bytes given for the blob {descriptor.digest} ({descriptor.size} bytes) of {owner} are "
                f"{'of another size' if found is None else found}",
                hint="the source changed or is damaged; run the command again",
            )

    def _append(self, size: int, content: Content, on_bytes: ByteCount) -> str | None:
        """The digest of what is left and the rest of `content` together; None where they are not `size` bytes."""
        if content.size != size:
            return None
        digest = hashlib.sha256()
        start, end = self.size, self.size + size
        if self.left:
            with FileContent(self.path, start, self.left).open() as reader:
                for piece in chunks(reader):
                    digest.update(piece)
                    on_bytes(len(piece))
            self.truncate(self._length)
        with content.open(self.size - start) as reader:
            for piece in chunks(reader, min(size + 1, READ_SIZE)):
                if self.size + len(piece) > end:
                    return None
                digest.update(piece)
                self.write(piece, file_position(reader))
                on_bytes(len(piece))
        return "sha256:" + digest.hexdigest() if self.size == end else None

    def truncate(self, size: int) -> None:
        """Keep the first `size` bytes, written or left, and continue after them."""
        if self._handle is not None:
            with writing(self.target):
                os.ftruncate(self._handle, size)
            self._length = size
            self._resume(self._handle, size)

    def sync(self, *, close: bool = False) -> None:
        """Push the bytes to the disk.

        Args:
            close: Whether to close the file, which gives up its lock, so that few of many files are open at once.
        """
        if self._handle is not None:
            if self.left:
                self.truncate(self.size)
            with writing(self.target):
                os.fsync(self._handle)
                if close:
                    self._close()

    def publish(self, target: Path | None = None) -> None:
        """Give the file its final name, replacing what is there, once its bytes are on the disk.

        Args:
            target: The final path, where it was not known before.
        """
        self.target = target or self.target
        self.sync(close=os.name == "nt")  # which renames no open file
        with writing(self.target):
            self.path.replace(self.target)
            self.leave()
            _sync_folder(self.target.parent)

    def leave(self) -> None:
        """Close the file, so that another process can resume it; may be called twice."""
        self._mine = False
        self._close()

    def discard(self) -> None:
        """Remove the file; harmless after `publish` and `leave`."""
        if os.name == "nt":
            self._close()
        if self._mine:
            with suppress(OSError):
                self.path.unlink()
        self.leave()

    def _close(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def __enter__(self) -> AtomicFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, trace: object) -> None:
        if exc is not None and self._lasting and can_resume(exc) and self.size + self.left >= KEEP:
            self.leave()
        else:
            self.discard()


def write_file(target: Path, data: bytes, folder: Path | None = None, *, mode: int = 0o666) -> None:
    """Write a small file so that it appears whole or not at all; for `folder` and `mode` see `AtomicFile`.

    Raises:
        DestinationError: it cannot be written.
    """
    write_pieces(target, [data], folder, mode=mode)


def write_pieces(target: Path, pieces: Iterable[bytes], folder: Path | None = None, *, mode: int = 0o666) -> None:
    """Write a file that is made piece by piece; see `write_file`."""
    with AtomicFile(target, folder, mode=mode) as file:
        for piece in pieces:
            file.write(piece)
        file.publish()


def verified_write(
    target: Path, descriptor: Descriptor, content: Content, owner: str, on_bytes: ByteCount = ignore_bytes
) -> None:
    """Write a blob to `target`, through a temporary file in the folder two levels above that another process resumes.

    While another process writes the same blob, this one writes another file.

    Raises:
        IntegrityError: `content` has another size or digest than `descriptor`.
        DestinationError: the file cannot be written.
    """
    folder = target.parents[2]
    try:
        file = AtomicFile(target, folder, resume=descriptor.digest[7:])
    except InUseError:
        file = AtomicFile(target, folder)
    with file:
        file.write_blob(descriptor, content, owner, on_bytes)
        file.publish()


def hidden_path(target: Path, end: str) -> Path:
    """`.NAME.END` next to `target`; a name that would become too long for a file system is hashed."""
    name = os.fsencode(target.name)
    short = target.name if len(name) <= _LONGEST else hashlib.sha256(name).hexdigest()
    return target.with_name(f".{short}.{end}")


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


def check_replaceable(path: Path, mark: bytes, what: str) -> None:
    """Like `check_place`, for a file that a later run replaces; nobody else's may be lost.

    Args:
        path: The file.
        mark: What stands in its first bytes, if this program wrote it.
        what: What it is then.

    Raises:
        DestinationError: it cannot be written, or there is something else.
    """
    check_place(path)
    if not os.path.lexists(path):
        return
    with writing(path):
        if stat.S_ISREG(path.stat().st_mode):
            with open(path, "rb") as file:
                start = file.read(_START)
            if not start or mark in start:
                return
    raise DestinationError(f"cannot write {path}: it exists, and is no {what}", hint="choose another name")


def remove_left(target: Path) -> None:
    """Remove what killed processes have left of `target` under random temporary names."""
    stem = glob.escape(hidden_path(target, "ocibridge-").name)
    # The hour is for file systems that know no locks.
    sweep(target.parent, f"{stem}{'[0-9a-f]' * 16}.part", _ABANDONED)


def left_over(folder: Path) -> int:
    """Bytes on the disk that unfinished files of this program occupy in `folder`."""
    total = 0
    for path in folder.glob(".ocibridge-*.part"):
        with suppress(OSError):
            status = path.stat()
            total += getattr(status, "st_blocks", status.st_size // 512) * 512
    return total


def sweep(folder: Path, pattern: str = ".*ocibridge-*.part", age: float = STALE) -> None:
    """Remove temporary files that no process has open and that nobody has touched for `age` seconds."""
    with suppress(OSError):
        for path in folder.glob(pattern):
            with suppress(OSError), open(path, "r+b") as file:
                if time.time() - path.stat().st_mtime > age and try_lock(file.fileno()):
                    path.unlink()


def _sync_folder(folder: Path) -> None:
    # A folder can be opened and synced on POSIX systems only; elsewhere a rename is as durable as it gets.
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
