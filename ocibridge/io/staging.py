# SPDX-License-Identifier: Apache-2.0
"""Targets that appear whole or not at all: written in a workspace beside their final name, and renamed at the end."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from ..errors import DestinationError, writing
from .journal import Journal
from .workspace import OLD, Workspace

_HINT = "choose another name, or replace it with --force"


class Staging:
    """A temporary name for `dest`, and the step that gives what is there its final name.

    Args:
        dest: The final path; its folder must exist.
        suffix: End of the temporary name.
        force: Whether something at `dest` may be replaced.
        empty: Whether a folder is written, for which an empty one at `dest` counts as nothing.
        key: See `Workspace`; None begins anew each time.
        part: See `Workspace`.

    Attributes:
        temp: The temporary name; where `resumed`, an earlier process has left something there.

    Raises:
        DestinationError: `dest` exists, is no name for a new file or folder, or is written by another process.
    """

    def __init__(
        self,
        dest: Path,
        *,
        suffix: str = "",
        force: bool = False,
        empty: bool = False,
        key: str | None = None,
        part: str = "",
    ) -> None:
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
        self._space = Workspace(dest, key, part)
        self.temp = self._space.path / f"new{suffix}"
        self._final = final
        try:
            # It may have appeared while another process held the workspace.
            if self._taken():
                raise self._exists()
            self._separate()
        except BaseException:
            self.suspend()
            raise

    def _separate(self) -> None:
        """Let go of a file that has its final name already: its process was killed right after that."""
        with writing(self.dest), suppress(FileNotFoundError):
            status = self.temp.lstat()
            if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
                self.temp.unlink()

    @property
    def journal(self) -> Journal | None:
        """What has arrived at `temp`, for the process that goes on."""
        return self._space.journal

    @property
    def resumed(self) -> bool:
        """Whether an earlier process has left something of the same artifact."""
        return self._space.resumed

    def beside(self, name: str) -> Path:
        """Another temporary path, which goes when this one does."""
        return self._space.path / name

    def need(self, size: int) -> None:
        """Refuse what finds no room; see `Workspace.need`."""
        self._space.need(size)

    def publish_file(self) -> None:
        """Give the temporary file its final name.

        Raises:
            DestinationError: something has appeared at `dest` meanwhile, or it cannot be written.
        """
        with writing(self.dest):
            self._rename_file()
        self._space.discard()

    def _rename_file(self) -> None:
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

    def publish_folder(self) -> None:
        """Give the temporary folder its final name; what is replaced is removed only after that.

        Raises:
            DestinationError: something has appeared at `dest` meanwhile, or it cannot be written.
        """
        with writing(self.dest):
            if self._taken():
                raise self._exists()
            old = self.beside(OLD)
            if os.path.lexists(self._final):
                self._final.rename(old)
            try:
                self.temp.rename(self._final)
            except OSError:
                if os.path.lexists(old):
                    old.rename(self._final)
                raise
            if os.path.lexists(old) and (old.is_symlink() or not old.is_dir()):
                old.unlink()
        self._space.discard()

    def suspend(self) -> None:
        """Keep what has arrived for the process that goes on, if it is worth that."""
        if self._space.worth_keeping():
            self._space.leave()
        else:
            self._space.discard()

    def discard(self) -> None:
        """Remove what is at the temporary name; harmless when nothing is."""
        self._space.discard()

    def _taken(self) -> bool:
        """Whether there is something at `dest` that may not be replaced."""
        with writing(self.dest):
            if self._force or not os.path.lexists(self.dest):
                return False
            return not (self._empty and self.dest.is_dir() and not any(self.dest.iterdir()))

    def _exists(self) -> DestinationError:
        return DestinationError(f"cannot write {self.dest}: it exists", hint=_HINT)
