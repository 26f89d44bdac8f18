# SPDX-License-Identifier: Apache-2.0
"""Targets that are written in a hidden folder next to them, and appear complete or not at all.

What a killed process leaves in the folder is taken up by the next one that is to write the same.
"""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from ..errors import DestinationError, writing
from .atomic import KEEP, hidden_path
from .journal import Journal
from .locks import is_named, try_lock
from .positioned import check_free_space, fsync_all

_OLD = "old"
"""Name of what is replaced, until its successor has taken its place."""
_JOURNAL, _LOCK = "journal", "lock"
_HINT = "choose another name, or replace it with --force"


class StagingFolder:
    """`.NAME.ocibridge` next to `dest`, held by one process at a time.

    Args:
        dest: The target.
        key: Names what arrives; what was left of something else is removed. None keeps and leaves nothing.
        part: Tells several staging folders of one target from each other.
        label: What messages call the target; None takes `dest`.

    Attributes:
        path: The folder.
        journal: What has arrived; None without a key.

    Raises:
        DestinationError: another process works on the same target, or the folder cannot be made.
    """

    def __init__(self, dest: Path, key: str | None, part: str = "", label: str | None = None) -> None:
        self._label = label or str(dest)
        final = dest.absolute()
        self.path = hidden_path(final, f"{part and part + '.'}ocibridge")
        with writing(self._label):
            self._lock: int | None = self._enter()
        self.journal: Journal | None = None
        try:
            with writing(self._label):
                self._put_back(final)
                if key is not None:
                    self.journal = Journal(self.path / _JOURNAL, key)
                if not self.resumed:
                    self._clear()
        except BaseException:
            self.discard()
            raise

    def _put_back(self, final: Path) -> None:
        """Restore the name of a target that a killed process moved away between two renames."""
        old = self.path / _OLD
        if os.path.lexists(old) and not os.path.lexists(final):
            old.rename(final)

    @property
    def resumed(self) -> bool:
        """True if an earlier process has left something of the same artifact."""
        return self.journal is not None and self.journal.resumed

    def check_free_space(self, size: int) -> None:
        """Check the free space for `size` bytes, less those that are there.

        Raises:
            DestinationError: the disk has less.
        """
        check_free_space(self.path, self._label, size, _allocated(self.path))

    def pause(self) -> None:
        """Keep what has arrived for the next process, if it is worth that."""
        if self.journal is None or _allocated(self.path) < KEEP:
            self.discard()
            return
        # On a full disk the last notes are lost, and what they were about is fetched again.
        with suppress(DestinationError):
            self.journal.flush()
        self.journal.close()
        self._unlock()

    def discard(self) -> None:
        """Remove everything; harmless when that is done."""
        if self.journal is not None:
            self.journal.close()
        if self._lock is not None:
            # The lock is given up last: whoever waits for it then finds that its file is gone.
            shutil.rmtree(self.path, ignore_errors=True)
            self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _enter(self) -> int:
        while True:
            with suppress(FileExistsError):
                self.path.mkdir(mode=0o700)
            path = self.path / _LOCK
            try:
                self._check_owner()
                handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
            except FileNotFoundError:
                continue  # the process before has just removed the folder
            if not try_lock(handle):
                os.close(handle)
                raise DestinationError(
                    f"cannot write {self._label}: another ocibridge is writing it",
                    hint="wait until it is done, or choose another name",
                )
            if is_named(handle, path):
                return handle
            os.close(handle)

    def _check_owner(self) -> None:
        """Files are opened by name in the folder, so nobody else may be able to put links there."""
        status = os.lstat(self.path)
        ours = not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
        if not stat.S_ISDIR(status.st_mode) or not ours or (os.name == "posix" and status.st_mode & 0o022):
            raise DestinationError(
                f"cannot write {self._label}: {self.path} is in the way, and not this user's own folder",
                hint="remove it, or choose another name",
            )

    def _clear(self) -> None:
        stay = (_LOCK,) if self.journal is None else (_LOCK, _JOURNAL)
        for child in self.path.iterdir():
            if child.name in stay:
                continue
            if child.is_dir() and not child.is_symlink():
                shutil.rmtree(child)
            else:
                child.unlink()


class Staging(StagingFolder):
    """A file or folder in a staging folder, and the step that gives it its final name.

    Args:
        dest: The final path; its folder must exist.
        suffix: End of the temporary name.
        force: Whether something at `dest` may be replaced.
        empty: Whether a folder is written, for which an empty one at `dest` counts as nothing.
        key: See `StagingFolder`.
        part: See `StagingFolder`.

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
        self._final = dest.absolute()
        if self._final.name in ("", "..") or self._final == Path.cwd():
            raise DestinationError(f"cannot replace the folder {dest}", hint="name a new folder or file")
        self._check_absent()
        if not empty and dest.is_dir():
            raise DestinationError(f"cannot write {dest}: it is a folder", hint="choose another name")
        super().__init__(dest, key, part)
        self.temp = self.path / f"new{suffix}"
        try:
            # It may have appeared while another process held the folder.
            self._check_absent()
            self._separate()
        except BaseException:
            self.pause()
            raise

    def _separate(self) -> None:
        """Let go of a file that has its final name already: its process was killed right after that."""
        with writing(self.dest), suppress(FileNotFoundError):
            status = self.temp.lstat()
            if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
                self.temp.unlink()

    def publish_file(self) -> None:
        """Give the temporary file its final name, once its bytes are on the disk.

        Raises:
            DestinationError: something has appeared at `dest` meanwhile, or it cannot be written.
        """
        with writing(self.dest):
            fsync_all(self.path, [self.temp])
            self._rename_file()
        self.discard()

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
            self._check_absent()
            old = self.path / _OLD
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
        self.discard()

    def _check_absent(self) -> None:
        """Refuse a `dest` that may not be replaced."""
        with writing(self.dest):
            if self._force or not os.path.lexists(self.dest):
                return
            if not (self._empty and self.dest.is_dir() and not any(self.dest.iterdir())):
                raise self._exists()

    def _exists(self) -> DestinationError:
        return DestinationError(f"cannot write {self.dest}: it exists", hint=_HINT)


def _allocated(folder: Path) -> int:
    """Bytes that the files below a folder occupy."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                status = Path(root, name).lstat()
                total += getattr(status, "st_blocks", status.st_size // 512) * 512
    return total
