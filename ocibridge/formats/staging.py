# SPDX-License-Identifier: Apache-2.0
"""Targets that appear whole or not at all: written beside their final name, and renamed at the end."""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path

from ..errors import DestinationError, writing

_HINT = "choose another name, or replace it with --force"


class Staging:
    """A temporary name beside `dest`, and the step that gives what is there its final name.

    Args:
        dest: The final path; its folder must exist.
        suffix: End of the temporary name.
        force: Whether something at `dest` may be replaced.
        empty: Whether a folder is written, for which an empty one at `dest` counts as nothing.

    Raises:
        DestinationError: `dest` exists, or is no name for a new file or folder.
    """

    def __init__(self, dest: Path, *, suffix: str = "", force: bool = False, empty: bool = False) -> None:
        self.dest = dest
        self._force = force
        self._empty = empty
        final = dest.absolute()
        if final.name in ("", "..") or final == Path.cwd():
            raise DestinationError(f"cannot replace the folder {dest}", hint="name a new folder or file")
        if self._taken():
            raise self._exists()
        if not empty and dest.is_dir():
            raise DestinationError(f"cannot write {dest}: it is a folder", hint="choose another name")
        stem = f".{final.name[:40]}"
        self.temp = final.with_name(f"{stem}.ocibridge-{secrets.token_hex(8)}{suffix}")
        self._final = final

    def publish_file(self) -> None:
        """Give the temporary file its final name.

        Raises:
            DestinationError: something has appeared at `dest` meanwhile, or it cannot be written.
        """
        with writing(self.dest):
            if self._force:
                self.temp.replace(self._final)
                return
            try:
                os.link(self.temp, self._final)
            except FileExistsError:
                raise self._exists() from None
            except OSError:
                # No hard links here: an empty placeholder is as exclusive.
                try:
                    os.close(os.open(self._final, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                except FileExistsError:
                    raise self._exists() from None
                try:
                    self.temp.replace(self._final)
                except OSError:
                    self._final.unlink()
                    raise
                return
            self.temp.unlink()

    def publish_folder(self) -> None:
        """Give the temporary folder its final name; what is replaced is removed only after that.

        Raises:
            DestinationError: something has appeared at `dest` meanwhile, or it cannot be written.
        """
        with writing(self.dest):
            if self._taken():
                raise self._exists()
            old = self.temp.with_name(f"{self.temp.name}.old")
            if os.path.lexists(self._final):
                self._final.rename(old)
            try:
                self.temp.rename(self._final)
            except OSError:
                if os.path.lexists(old):
                    old.rename(self._final)
                raise
            _remove(old)

    def discard(self) -> None:
        """Remove what is at the temporary name; harmless when nothing is."""
        _remove(self.temp)

    def _taken(self) -> bool:
        """Whether there is something at `dest` that may not be replaced."""
        with writing(self.dest):
            if self._force or not os.path.lexists(self.dest):
                return False
            return not (self._empty and self.dest.is_dir() and not any(self.dest.iterdir()))

    def _exists(self) -> DestinationError:
        return DestinationError(f"cannot write {self.dest}: it exists", hint=_HINT)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
