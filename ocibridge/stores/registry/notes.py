# SPDX-License-Identifier: Apache-2.0
"""Notes on open uploads, with which another process can resume them."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from ...io.atomic import sweep
from ...io.locks import try_lock
from ...settings import KiB, MiB

FOLDER = "uploads"
"""Name of the folder with the notes, in the folder given to `UploadNote`."""
LEAST = 64 * MiB
"""Smaller blobs are not resumed: sending them again is as fast."""
_LONGEST = 16 * KiB


class UploadNote:
    """The `Location` of one upload, in a file that is locked as long as its process lives.

    Another process with the same upload keeps no note: a session in use is never resumed.
    If the file cannot be used, there is no note.

    Args:
        folder: Folder of the notes; None keeps none.
        place: Registry and repository.
        blob: Digest of the blob, or another key.

    Attributes:
        location: The location that an ended process has left, or None.
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
        sweep(self._path.parent, "*")  # registries purge sooner what was not finished
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
        """True if the note is kept for a later process."""
        return self._handle is not None

    def write(self, location: str) -> None:
        """Write the location at which the upload can be resumed."""
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
        """Remove the note: the upload cannot be resumed."""
        if self._handle is not None:
            with suppress(OSError):
                os.ftruncate(self._handle, 0)
        self.close()

    def close(self) -> None:
        """Close the note, and keep it for a later process unless it is empty."""
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
