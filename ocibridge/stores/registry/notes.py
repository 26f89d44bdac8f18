# SPDX-License-Identifier: Apache-2.0
"""Notes on open uploads, so that the next process goes on where one was stopped."""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress
from pathlib import Path

from ...io.locks import try_lock
from ...settings import KiB, MiB

FOLDER = "uploads"
"""Name of the folder with the notes, in the folder given to `UploadNote`."""
LEAST = 64 * MiB
"""Smaller blobs are sent again faster than anybody asks what is left of them."""
_OLD = 7 * 24 * 60 * 60
"""Seconds after which registries purge what was not finished."""
_LONGEST = 16 * KiB


class UploadNote:
    """The `Location` of one upload, in a file that is locked as long as its process lives.

    Another process with the same upload keeps no note of its own: nobody ever goes on with a session that is in use.
    Whatever goes wrong with the file, there is no note.

    Args:
        folder: Where notes are kept; None keeps none.
        place: Registry and repository.
        blob: Digest of the blob, or whatever else tells it from others.

    Attributes:
        location: What a process that is no more has left, if one has.
    """

    def __init__(self, folder: Path | None, place: str, blob: str) -> None:
        self.location: str | None = None
        self._place = place
        self._handle: int | None = None
        if folder is not None:
            self._path = self._file(folder / FOLDER, blob)
            try:
                self._take()
            except OSError:
                self.close()

    def _file(self, folder: Path, blob: str) -> Path:
        return folder / hashlib.sha256(f"{self._place}\n{blob}".encode()).hexdigest()

    def _take(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _sweep(self._path.parent)
        handle = os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600)
        if not try_lock(handle, self._path):
            os.close(handle)
            return
        self._handle = handle
        text = os.read(handle, _LONGEST).decode(errors="replace")
        # A line without its end was cut short, with the process that wrote it.
        self.location = (text[:-1] or None) if text.endswith("\n") else None

    @property
    def kept(self) -> bool:
        """Whether a later process can know of the session."""
        return self._handle is not None

    def write(self, location: str) -> None:
        """Note where the upload goes on now."""
        if self._handle is None:
            return
        try:
            os.ftruncate(self._handle, 0)
            os.lseek(self._handle, 0, os.SEEK_SET)
            os.write(self._handle, f"{location}\n".encode())
        except OSError:
            self.forget()

    def rename(self, blob: str) -> None:
        """Keep the note under another name of the blob from now on."""
        if self._handle is not None:
            with suppress(OSError):
                target = self._file(self._path.parent, blob)
                self._path.replace(target)
                self._path = target

    def forget(self) -> None:
        """Remove the note: there is nothing to go on with."""
        if self._handle is not None:
            with suppress(OSError):
                os.ftruncate(self._handle, 0)
        self.close()

    def close(self) -> None:
        """Leave the note to a later process, if anything is in it."""
        handle, self._handle = self._handle, None
        if handle is not None:
            with suppress(OSError):
                if not os.fstat(handle).st_size:
                    self._path.unlink()
            with suppress(OSError):
                os.close(handle)

    def __enter__(self) -> UploadNote:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _sweep(folder: Path) -> None:
    oldest = time.time() - _OLD
    for path in folder.iterdir():
        with suppress(OSError):
            if path.stat().st_mtime < oldest:
                path.unlink()
