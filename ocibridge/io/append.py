# SPDX-License-Identifier: Apache-2.0
"""A file that grows as its bytes arrive, behind what an earlier process has written of it."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path

from ..errors import IntegrityError
from ..paths import show
from ..settings import READ_SIZE
from .content import FileContent, ForwardingReader, Reader, place_of
from .hasher import LARGE, BackgroundHasher
from .journal import Journal
from .positioned import LAG, PositionedWriter, turns

_CREATE = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


def grow(
    target: str | Path,
    path: str,
    size: int,
    reader: Reader,
    *,
    hashed: bool,
    kept: int = 0,
    mark: Callable[[int], None] | None = None,
) -> str | None:
    """Write a file; a large one is on disk when this returns, small ones are for `ocibridge.io.positioned.fsync_all`.

    Args:
        target: Where.
        path: What it is, for messages.
        size: Its length in bytes.
        reader: All of its bytes; the first `kept` are there already.
        hashed: Whether its sha256 is wanted.
        kept: Bytes that are there already.
        mark: See `ocibridge.io.positioned.PositionedWriter`.

    Returns:
        The hex sha256, if it is wanted.

    Raises:
        OSError: it cannot be written.
        IntegrityError: there are more or fewer bytes than `size`.
    """
    handle = os.open(target, _CREATE if kept else _CREATE | os.O_TRUNC, 0o666)
    try:
        if not kept and isinstance(reader, ForwardingReader) and (whole := reader.at_hand()) is not None:
            return _put(handle, path, size, whole, hashed)
        digest = hashlib.sha256()
        if kept:
            os.ftruncate(handle, kept)
        filler = PositionedWriter(handle, kept=kept, mark=mark)
        # What is not hashed here is written as fast by the thread that reads it.
        beside = hashed and size >= LARGE
        with BackgroundHasher(beside) as hashing, BackgroundHasher(beside) as writing:
            for piece in turns(reader, size):
                hashing.wait(LAG)
                writing.wait(LAG)
                if hashed:
                    hashing.update(digest, piece)
                writing.do(partial(filler.write, piece, place_of(reader)))
        check_size(path, filler.done, size)
        if is_large(size):
            os.fsync(handle)
    finally:
        os.close(handle)
    return digest.hexdigest() if hashed else None


def _put(handle: int, path: str, size: int, whole: memoryview, hashed: bool) -> str | None:
    """`grow` for a file whose bytes are in memory."""
    check_size(path, len(whole), size)
    digest = hashlib.sha256(whole).hexdigest() if hashed else None
    while whole:
        whole = whole[os.write(handle, whole) :]
    return digest


def is_large(size: int) -> bool:
    """Whether a file is worth a wait for the disk of its own."""
    return size >= READ_SIZE


def kept_part(place: Path, path: str, size: int, whole: bool, journal: Journal | None) -> FileContent | None:
    """What is there of a growing file; see `ocibridge.formats.base.Sink.keep`."""
    count = size if whole or not journal else journal.marked(path)
    return FileContent(place, 0, count) if regular(place, count) else None


def regular(path: Path, size: int) -> bool:
    """Whether there is a plain file with at least `size` bytes."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size >= size


def check_size(path: str, done: int, size: int) -> None:
    """Raise `IntegrityError` unless `done` bytes arrived of the `size` promised."""
    if done != size:
        raise IntegrityError(f"{show(path)} has {done} bytes, not the {size} promised", hint="run the command again")
