# SPDX-License-Identifier: Apache-2.0
"""A hidden folder beside a target, in which it grows; what a killed process leaves there is taken up by the next."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from ..errors import DestinationError, writing
from ..settings import MiB
from .journal import Journal
from .locks import try_lock
from .positioned import check_free_space

OLD = "old"
"""Name of what is replaced, until its successor has taken its place."""
KEEP = MiB
"""Bytes that make an interrupted target worth keeping."""
_JOURNAL, _LOCK = "journal", "lock"
_LONGEST = 200


class Workspace:
    """`.NAME.ocibridge` beside `dest`, held by one process at a time.

    Args:
        dest: The target.
        key: Names what arrives; what was left of something else is removed. None keeps and leaves nothing.
        part: Tells several workspaces of one target from each other.
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
        name = os.fsencode(final.name)
        short = final.name if len(name) <= _LONGEST else hashlib.sha256(name).hexdigest()
        self.path = final.with_name(f".{short}{part and '.' + part}.ocibridge")
        with writing(self._label):
            self._lock: int | None = self._enter()
        self.journal: Journal | None = None
        try:
            with writing(self._label):
                self._put_back(final)
                self._begin(key)
        except BaseException:
            self.discard()
            raise

    def _begin(self, key: str | None) -> None:
        if key is None:
            self._clear()
            return
        journal = Journal(self.path / _JOURNAL, key)
        self.journal = journal
        if not journal.resumed:
            self._clear()

    def _put_back(self, final: Path) -> None:
        """What a process that was killed between two renames has moved away gets its name back."""
        old = self.path / OLD
        if os.path.lexists(old) and not os.path.lexists(final):
            old.rename(final)

    @property
    def resumed(self) -> bool:
        """Whether something was left of the same artifact."""
        return self.journal is not None and self.journal.resumed

    def need(self, size: int) -> None:
        """See `check_free_space`."""
        check_free_space(self.path, self._label, size, _allocated(self.path))

    def worth_keeping(self) -> bool:
        """Whether so much has arrived that the next process should go on with it."""
        return self.journal is not None and _allocated(self.path) >= KEEP

    def leave(self) -> None:
        """Let another process go on."""
        if self.journal is not None:
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
            try:
                if os.path.samestat(os.fstat(handle), path.stat()):
                    return handle
            except OSError:
                pass
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


def _allocated(folder: Path) -> int:
    """Bytes that the files below a folder occupy."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                status = Path(root, name).lstat()
                total += getattr(status, "st_blocks", status.st_size // 512) * 512
    return total
