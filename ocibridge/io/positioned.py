# SPDX-License-Identifier: Apache-2.0
"""Files written at a position: after what an earlier process has left, and hashed in the background."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from ..errors import DestinationError, human_size
from ..settings import READ_SIZE, MiB
from .content import FileContent
from .hasher import LARGE, BackgroundHasher
from .incoming import LAG, IncomingFile
from .journal import MARK, Journal
from .readers import file_position

_STEP = 8 * MiB
_CREATE = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_MANY = 64
_seeking = threading.Lock()


class PositionedWriter:
    """Writes the bytes of one file, or of one member of an archive, from its start.

    Args:
        handle: File descriptor.
        offset: Position of the first byte in the file.
        kept: Bytes that are there already and are passed over.
        mark: Called every `ocibridge.io.journal.MARK` bytes with the number of bytes written.
    """

    def __init__(self, handle: int, offset: int = 0, kept: int = 0, mark: Callable[[int], None] | None = None) -> None:
        self._handle = handle
        self._offset = offset
        self._kept = kept
        self._mark = mark
        self._marked = kept
        self._pushed = kept
        self.done = 0

    def write(self, data: bytes | memoryview, behind: tuple[int, int] | None = None) -> None:
        """The next bytes.

        Args:
            data: The bytes.
            behind: Descriptor of a lasting file that they are in, and the position behind them there: the system then
                copies them itself, or lets both files share them.

        Raises:
            OSError: they cannot be written.
        """
        view = memoryview(data)
        over = min(len(view), max(0, self._kept - self.done))
        self.done += over
        view = view[over:]
        while view:
            at = self._offset + self.done
            count = copy_at(self._handle, len(view), at, behind[0], behind[1] - len(view)) if behind else 0
            count = count or write_at(self._handle, view, at)
            self.done += count
            view = view[count:]
        if self.done - self._pushed >= _STEP:
            self._push()
        if self._mark and self.done - self._marked >= MARK:
            self._mark(self.done)
            self._marked = self.done

    def _push(self) -> None:
        """Start writing to the disk what is in memory, so that the final fsync finds little to do."""
        if hasattr(os, "posix_fadvise"):
            # On Linux this starts the writing of the range; pages that are not written yet stay in memory.
            with suppress(OSError):
                start, count = self._offset + self._pushed, self.done - self._pushed
                os.posix_fadvise(self._handle, start, count, os.POSIX_FADV_DONTNEED)
        self._pushed = self.done


def copy_at(handle: int, count: int, offset: int, source: int, position: int) -> int:
    """Have the system copy some of `count` bytes between files; 0 where it cannot (Linux can: copy_file_range(2))."""
    if hasattr(os, "copy_file_range"):
        # Between file systems, say, or where a sandbox forbids it.
        with suppress(OSError):
            return os.copy_file_range(source, handle, count, position, offset)
    return 0


def write_at(handle: int, view: memoryview, offset: int) -> int:
    """Write some of `view` at `offset`; the number of bytes written."""
    if hasattr(os, "pwrite"):
        return os.pwrite(handle, view, offset)
    with _seeking:
        os.lseek(handle, offset, os.SEEK_SET)
        return os.write(handle, view)


def append_file(
    target: str | Path, file: IncomingFile, *, kept: int = 0, mark: Callable[[int], None] | None = None
) -> None:
    """Write a file; a large one is on disk when this returns, small ones are for `fsync_all`.

    Args:
        target: Where.
        file: All of its bytes.
        kept: Bytes that are there already.
        mark: See `PositionedWriter`.

    Raises:
        OSError: it cannot be written.
        IntegrityError: there are more or fewer bytes than the file should have.
    """
    handle = os.open(target, _CREATE if kept else _CREATE | os.O_TRUNC, 0o666)
    try:
        if kept:
            os.ftruncate(handle, kept)
        writer = PositionedWriter(handle, kept=kept, mark=mark)
        # What is not hashed is written as fast by the thread that reads it.
        with BackgroundHasher(file.hashed and file.size >= LARGE) as background:
            for piece in file:
                background.wait(LAG)
                background.do(partial(writer.write, piece, file_position(file.reader)))
        if is_large(file.size):
            os.fsync(handle)
    finally:
        os.close(handle)


def is_large(size: int) -> bool:
    """Return whether a file is worth a wait for the disk of its own."""
    return size >= READ_SIZE


def resumable_file(place: Path, path: str, size: int, whole: bool, journal: Journal | None) -> FileContent | None:
    """Open the received part of a file; see `ocibridge.formats.base.Sink.resume_file`."""
    count = size if whole or not journal else journal.marked(path)
    return FileContent(place, 0, count) if has_bytes(place, count) else None


def has_bytes(path: Path, size: int) -> bool:
    """Return whether there is a plain file with at least `size` bytes."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size >= size


def check_free_space(folder: Path, label: str, size: int, there: int) -> None:
    """Refuse to begin what cannot end: `size` bytes have to fit into `folder`, less those that are there already.

    Raises:
        DestinationError: the disk has less.
    """
    with suppress(OSError):
        free = shutil.disk_usage(folder).free
        missing = size - there - free
        if missing > 0:
            raise DestinationError(
                f"cannot write {label}: it needs {human_size(size)}, and {human_size(free)} are free",
                hint=f"free {human_size(missing)} more, or write to another disk",
            )


def fsync_all(folder: Path, files: Sequence[str | Path]) -> None:
    """Push many files, by their paths inside `folder`, to the disk: far cheaper together than one by one.

    Raises:
        OSError: the disk reports an error.
    """
    if len(files) > _MANY and _sync_file_system(folder):
        return
    from concurrent.futures import ThreadPoolExecutor  # who only looks at a model needs none of it

    with ThreadPoolExecutor(16, thread_name_prefix="ocibridge-sync") as pool:
        for _ in pool.map(lambda file: _sync(folder / file), files):
            pass


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_file_system(folder: Path) -> bool:
    """Linux's syncfs(2), which the standard library does not have; False where there is none."""
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    call = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if call is None:
        return False
    handle = os.open(folder, os.O_RDONLY)
    try:
        if call(handle):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    finally:
        os.close(handle)
    return True
