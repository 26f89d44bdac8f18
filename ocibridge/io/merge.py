# SPDX-License-Identifier: Apache-2.0
"""Files that are added to a folder that somebody uses: nothing of theirs is lost, and what is not new stays as it is.

New files arrive in a staging folder. Once all of them are right, each is moved into place by one atomic step. Before
that, the record of the folder (`.ocibridge`) has a line for each of them, and keeps those of the files that they
replace: whenever the process is killed, the next one still knows all that was written by ocibridge.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

from ..errors import DestinationError, writing
from ..paths import show
from ..settings import READ_SIZE
from .atomic import write_pieces
from .content import FileContent
from .existing import Existing, TargetRules, is_same, kind_of, stamp_of
from .marker import MARKER, Record, add_rows, lines_of, read_rows, row_of
from .readers import chunks

_SHOWN = 3


class Changes(NamedTuple):
    """Numbers of files.

    Attributes:
        added: Files that were not there.
        updated: Files that replaced others.
        kept: Files that were there with the same bytes.
    """

    added: int = 0
    updated: int = 0
    kept: int = 0


class ExpectedFile(NamedTuple):
    """A file that will arrive, as far as is known.

    Attributes:
        path: Its path.
        size: Its size in bytes.
        sha256: Its hex sha256.
        symlink: Target, where it is a symbolic link.
    """

    path: str
    size: int | None
    sha256: str | None
    symlink: str | None


class Merge:
    """A folder that files are added to.

    Args:
        folder: The folder, by its real path.
        label: What messages call it.
        rules: What may be replaced.

    Raises:
        DestinationError: its record is none; from every method: something is in the way, or cannot be written.
    """

    def __init__(self, folder: Path, label: str, rules: TargetRules) -> None:
        self._folder = folder
        self._root = str(folder)
        self._label = label
        self._overwrite = rules.existing is Existing.OVERWRITE
        self._header = rules.record
        self._sources = [each.relative_to(folder).as_posix() for each in rules.sources if each.is_relative_to(folder)]
        self._device = folder.lstat().st_dev
        self._record = Record(folder)
        self._equal: dict[str, tuple[str, tuple[int, ...]]] = {}
        self._kept: dict[str, os.stat_result] = {}

    def check(self, files: Iterable[ExpectedFile]) -> int:
        """Find what is in the way before anything arrives; what only its bytes can tell is found by `publish`.

        Returns:
            Bytes of the files that are not there.
        """
        found = []
        missing = 0
        for file in files:
            status = self._look(file.path)
            if status is None:
                missing += file.size or 0
            elif not self._may_replace(file.path, status) and not self._may_be_equal(file, status):
                found.append(file.path)
        self._refuse(found)
        return missing

    def action(self, file: ExpectedFile) -> Literal["add", "update", "keep", "compare"]:
        """Return what `publish` will do about a file; `compare` where only its bytes tell whether it is kept."""
        status = self._look(file.path)
        if status is None:
            return "add"
        if not self._may_be_equal(file, status):
            return "update"
        return "compare" if file.sha256 is None and file.symlink is None else "keep"

    def _may_be_equal(self, file: ExpectedFile, status: os.stat_result) -> bool:
        if file.symlink is not None:
            return stat.S_ISLNK(status.st_mode) and os.readlink(f"{self._root}/{file.path}") == file.symlink  # noqa: PTH115
        if not stat.S_ISREG(status.st_mode) or file.size not in (None, status.st_size):
            return False
        return file.sha256 is None or self._sha256(file.path, status) == file.sha256

    def has(self, path: str, size: int, sha256: str) -> bool:
        """Return whether the folder has this file, which then stays; reads it."""
        status = self._look(path)
        if not status or not stat.S_ISREG(status.st_mode) or status.st_size != size:
            return False
        if self._sha256(path, status) != sha256:
            return False
        self._kept[path] = status
        return True

    def _sha256(self, path: str, status: os.stat_result) -> str:
        stamp = stamp_of(status)
        if path not in self._equal or self._equal[path][1] != stamp:
            digest = hashlib.sha256()
            with FileContent(f"{self._root}/{path}").open() as reader:
                for piece in chunks(reader):
                    digest.update(piece)
            self._equal[path] = (digest.hexdigest(), stamp)
        return self._equal[path][0]

    def discard(self, paths: Iterable[str]) -> None:
        """Forget that the folder has these files: they arrive all the same."""
        for path in paths:
            self._kept.pop(path, None)

    def publish(self, staged: Path, hashes: Mapping[str, str], folders: Sequence[str], scratch: Path) -> Changes:
        """Move files into place.

        Args:
            staged: The folder that they have arrived in, on the same file system.
            hashes: Hex sha256, or "" where it is not known, by path: of these, and of those that `has` has found.
            folders: Empty folders to make.
            scratch: A folder for temporary files, on the same file system.

        Returns:
            What changed.
        """
        for path, seen in self._kept.items():
            self._check_unchanged(path, seen)
        moves, equal = self._plan(staged, [path for path in hashes if path not in self._kept])
        rows = {path: row_of(staged, path, hashes[path]) for path, _ in moves}
        rows.update({f"{path}/": {"path": f"{path}/"} for path in folders})
        with writing(self._label):
            add_rows(self._folder, self._header, rows.values())
        for path, status in moves:
            self._move(staged, path, status)
        for path in folders:
            self._look(f"{path}/x")
            with writing(f"{self._label}/{path}"):
                os.makedirs(f"{self._root}/{path}", exist_ok=True)  # noqa: PTH103
        added = sum(status is None for _, status in moves)
        old = (fields for fields in read_rows(self._folder) if fields["path"] not in rows)
        write_pieces(self._folder / MARKER, lines_of(self._header, chain(old, rows.values())), scratch)
        return Changes(added, len(moves) - added, equal + len(self._kept))

    def _plan(self, staged: Path, paths: Iterable[str]) -> tuple[list[tuple[str, os.stat_result | None]], int]:
        """The files that have to move, each with what is there now; and the number of those that are there already."""
        moves: list[tuple[str, os.stat_result | None]] = []
        equal = 0
        found = []
        for path in paths:
            status = self._look(path)
            if status and _is_equal(f"{staged}/{path}", f"{self._root}/{path}"):
                equal += 1
            elif status and not self._may_replace(path, status):
                found.append(path)
            else:
                moves.append((path, status))
        self._refuse(found)
        return moves, equal

    def _may_replace(self, path: str, status: os.stat_result) -> bool:
        return self._overwrite or self._record.unchanged(path, status)

    def _look(self, path: str) -> os.stat_result | None:
        """Look at what is in the place of a file; refuse what never makes way for one.

        Raises:
            DestinationError: a folder of the path is a link, a file, or on another file system; or there is a folder, a
                device, or what is being read.
        """
        end = path.find("/")
        while end >= 0:
            folder = path[:end]
            try:
                status = os.lstat(f"{self._root}/{folder}")
            except FileNotFoundError:
                return None
            if not stat.S_ISDIR(status.st_mode):
                raise self._in_the_way(folder, f"is {kind_of(status) or 'a file'}, and not a folder")
            if status.st_dev != self._device:
                raise self._in_the_way(folder, "is on another file system")
            end = path.find("/", end + 1)
        try:
            status = os.lstat(f"{self._root}/{path}")
        except FileNotFoundError:
            return None
        kind = kind_of(status)
        if kind and not stat.S_ISLNK(status.st_mode):
            raise self._in_the_way(path, f"is {kind}")
        if any(path == each or path.startswith(f"{each}/") for each in self._sources):
            raise self._in_the_way(path, "is what is read")
        return status

    def _in_the_way(self, path: str, what: str) -> DestinationError:
        return DestinationError(f"cannot write {self._label}: {show(path)} in it {what}", hint="choose another name")

    def _refuse(self, paths: Sequence[str]) -> None:
        if paths:
            names = ", ".join(map(show, paths[:_SHOWN]))
            more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
            raise conflict(
                f"cannot write {self._label}: {names}{more} in it {'is' if len(paths) == 1 else 'are'} in the way with "
                "other content, which ocibridge did not write",
                "choose another name, or replace such files with --overwrite",
            )

    def _move(self, staged: Path, path: str, status: os.stat_result | None) -> None:
        """Move a file into place, unless what is there has changed since it was looked at."""
        self._check_unchanged(path, status)
        source, target = staged / path, self._folder / path
        with writing(f"{self._label}/{path}"):
            if status:
                source.replace(target)
                return
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                move_new(source, target)
            except FileExistsError:
                raise self._changed(path) from None

    def _check_unchanged(self, path: str, status: os.stat_result | None) -> None:
        self._look(path)
        if not is_same(status, self._folder / path):
            raise self._changed(path)

    def _changed(self, path: str) -> DestinationError:
        return conflict(
            f"cannot write {self._label}: another process has changed {show(path)} in it meanwhile",
            "run the command again",
        )


def conflict(message: str, hint: str) -> DestinationError:
    """The error about something in the way, after which the work can be resumed."""
    error = DestinationError(message, hint=hint)
    error.__cause__ = FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    return error


def move_new(source: Path, target: Path) -> None:
    """Give a file its final name, if nothing has it.

    Raises:
        FileExistsError: something has.
        OSError: the file cannot be moved.
    """
    if source.is_symlink():
        target.symlink_to(source.readlink())
        source.unlink()
        return
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError:
        # No hard links here: an empty placeholder is as exclusive.
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        try:
            source.replace(target)
        except OSError:
            target.unlink()
            raise
    else:
        source.unlink()


def unlink_moved(staged: Path) -> None:
    """Let go of files that have their final names already: their process was killed right after that."""
    for folder, _, names in os.walk(staged):
        for name in names:
            place = Path(folder, name)
            status = place.lstat()
            if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
                place.unlink()


def _is_equal(one: str, other: str) -> bool:
    """Return whether two files have the same bytes, or two links the same text."""
    links = Path(one).is_symlink(), Path(other).is_symlink()
    if any(links):
        return all(links) and os.readlink(one) == os.readlink(other)  # noqa: PTH115
    if os.stat(one).st_size != os.stat(other).st_size:  # noqa: PTH116
        return False
    with open(one, "rb", buffering=0) as first, open(other, "rb", buffering=0) as second:
        while piece := first.read(READ_SIZE):
            if piece != second.read(len(piece)):
                return False
    return True
