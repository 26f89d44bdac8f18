# SPDX-License-Identifier: Apache-2.0
"""Targets that are written in a hidden folder next to them, and appear complete or not at all.

What a killed process leaves in the folder is taken up by the next one that is to write the same.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

from ..errors import DestinationError, writing
from .atomic import KEEP, hidden_path
from .existing import (
    Existing,
    TargetRules,
    check_all_ours,
    check_apart,
    check_file,
    check_folder,
    is_mount,
    is_same,
    real_target,
    say_deleted,
)
from .journal import Journal
from .locks import is_named, try_lock
from .marker import MARKER, lines_of, mark_file, row_of
from .merge import Changes, Merge, conflict, move_new, unlink_moved
from .positioned import check_free_space, fsync_all

_OLD = "old"
"""Name of what is replaced, until its successor has taken its place."""
_JOURNAL, _LOCK = "journal", "lock"


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
        """Restore the name of a target that a killed process moved away between two renames, or finish its removal."""
        old = self.path / _OLD
        if os.path.lexists(old):
            if os.path.lexists(final):
                shutil.rmtree(old)
            else:
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


def has_left_over(dest: Path) -> bool:
    """Return whether an interrupted process has left something of the target, or another one is writing it."""
    final = real_target(dest)
    places = (hidden_path(final, "ocibridge"), hidden_path(final, "archive.ocibridge"))
    return any(os.path.lexists(each) for each in (*places, hidden_path(final / "merge", "ocibridge")))


class Staging(StagingFolder):
    """A file or folder in a staging folder, and the step that gives it its final name.

    Args:
        dest: The final path; its folder must exist.
        suffix: End of the temporary name.
        folder: Whether a folder is written.
        rules: What may happen to what exists at `dest`.
        key: See `StagingFolder`.
        part: See `StagingFolder`.

    Attributes:
        temp: The temporary name; where `resumed`, an earlier process has left something there.
        merge: The folder at `dest`, where there is one that files are added to.

    Raises:
        DestinationError: what is at `dest` may not be replaced, or it is written by another process.
    """

    def __init__(
        self,
        dest: Path,
        *,
        suffix: str = "",
        folder: bool = False,
        rules: TargetRules = TargetRules(),
        key: str | None = None,
        part: str = "",
    ) -> None:
        self.dest = dest
        self._rules = rules
        self._folder = folder
        with writing(dest):
            self._final = real_target(dest)
            check_apart(self._final, str(dest), rules)
            self._look()
        place = self._final
        if folder and self._final.is_dir() and not _can_rename(self._final):
            place = self._final / "merge"
        super().__init__(place, key, part, label=str(dest))
        self.temp = self.path / f"new{suffix}"
        try:
            # It may have changed while another process held the folder.
            with writing(dest):
                self._look()
                self.merge = self._merge()
                self._separate()
            if self._replaces:
                say_deleted(*self._replaces, str(dest), rules)
            elif self._there:
                say_deleted(1, self._there.st_size, str(dest), rules)
        except BaseException:
            self.pause()
            raise

    def _look(self) -> None:
        """Refuse a `dest` that may not be replaced."""
        self._replaces: tuple[int, int] | None = None
        self._there: os.stat_result | None = None
        if self._folder:
            self._replaces = check_folder(self._final, str(self.dest), self._rules)
        else:
            self._there = check_file(self._final, str(self.dest), self._rules)

    def _merge(self) -> Merge | None:
        if self._folder and not self._replaces and self._final.is_dir():
            return Merge(self._final, str(self.dest), self._rules)
        return None

    def _separate(self) -> None:
        """Let go of files that have their final names already: their process was killed right after that."""
        if self.temp.is_dir():
            unlink_moved(self.temp)
        elif self.temp.is_file() and self.temp.lstat().st_nlink > 1:
            self.temp.unlink()

    def publish_file(self, identity: str | None = None) -> None:
        """Give the temporary file its final name, once its bytes are on the disk.

        Args:
            identity: What is noted as its identity; see `TargetRules.record`.

        Raises:
            DestinationError: something at `dest` has changed meanwhile, or it cannot be written.
        """
        with writing(self.dest):
            mark_file(self.temp, {**self._rules.record, "identity": identity})
            fsync_all(self.path, [self.temp])
            if not is_same(self._there, self._final):
                raise self._changed()
            if self._there:
                self.temp.replace(self._final)
            else:
                try:
                    move_new(self.temp, self._final)
                except FileExistsError:
                    raise self._changed() from None
        self.discard()

    def publish_folder(self, hashes: Mapping[str, str], folders: Sequence[str] = ()) -> Changes:
        """Give the temporary folder its final name, or move its files into the folder that is there.

        Args:
            hashes: Hex sha256, or "" where it is not known, by path of the files of the target.
            folders: Its empty folders.

        Raises:
            DestinationError: something at `dest` has changed meanwhile, or it cannot be written.
        """
        if self.merge:
            changes = self.merge.publish(self.temp, hashes, folders, self.path)
        else:
            with writing(self.dest):
                self._record(hashes, folders)
                self._publish_whole()
            changes = Changes(added=len(hashes))
        self.discard()
        return changes

    def _record(self, hashes: Mapping[str, str], folders: Sequence[str]) -> None:
        files = (row_of(self.temp, path, hashes[path]) for path in hashes)
        rows: Iterable[Mapping[str, object]] = chain(files, ({"path": f"{path}/"} for path in folders))
        with open(self.temp / MARKER, "wb") as file:
            file.writelines(lines_of(self._rules.record, rows))
            file.flush()
            os.fsync(file.fileno())

    def _publish_whole(self) -> None:
        """Give the folder its name; a folder that is replaced is removed only after its successor has the name."""
        if not self._replaces:
            if os.path.lexists(self._final):
                raise self._changed()
            self.temp.rename(self._final)
            return
        if check_folder(self._final, str(self.dest), self._rules) is None:
            raise self._changed()
        old = self.path / _OLD
        self._final.rename(old)
        try:
            self.temp.rename(self._final)
            if self._rules.existing is Existing.FORCE:
                # Nobody finds it by its name any more: what appeared in it since is found now.
                check_all_ours(old, str(self.dest))
        except BaseException:
            if self._final.exists():
                self._final.rename(self.temp)
            old.rename(self._final)
            raise

    def _changed(self) -> DestinationError:
        return conflict(
            f"cannot write {self.dest}: another process has made or changed it meanwhile",
            "run the command again, or choose another name",
        )


def _can_rename(folder: Path) -> bool:
    """Return whether files can be moved into a folder from one next to it."""
    return os.access(folder.parent, os.W_OK | os.X_OK) and not is_mount(folder)


def _allocated(folder: Path) -> int:
    """Bytes that the files below a folder occupy."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                status = Path(root, name).lstat()
                total += getattr(status, "st_blocks", status.st_size // 512) * 512
    return total
