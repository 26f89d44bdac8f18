# SPDX-License-Identifier: Apache-2.0
"""Rules for what exists at a target.

Everything is asked before anything is written, and asked again before anything is replaced. Places are compared by
their real paths, so that neither links nor `..` hide what a target is.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from ..errors import DestinationError, human_size, number, reading, writing
from ..paths import show
from .marker import file_record, foreign_files, walk

_log = logging.getLogger("ocibridge")
_OTHER_NAME = "choose another name"
_OVERWRITE = "choose another name, or replace it with --overwrite"
_KINDS = (
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISDIR, "a folder"),
)


class Existing(Enum):
    """A choice for a target that exists.

    Attributes:
        KEEP: A folder is added to; other content than that of the source is refused.
        OVERWRITE: Files in the way are replaced; nothing else is.
        FORCE: What ocibridge wrote, and nobody has changed since, is replaced.
        DELETE: The target is replaced, whatever it holds.
    """

    KEEP = "keep"
    OVERWRITE = "overwrite"
    FORCE = "force"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class TargetRules:
    """Rules for what exists at a target, and facts to note about what is written there.

    Attributes:
        existing: See `Existing`.
        sources: Real paths of what is read, which is never replaced or removed.
        record: What is noted with what was written: reference, digest, format.
    """

    existing: Existing = Existing.KEEP
    sources: tuple[Path, ...] = ()
    record: Mapping[str, object] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        """True if a folder is replaced whole."""
        return self.existing in (Existing.FORCE, Existing.DELETE)


def real_target(dest: Path) -> Path:
    """The absolute path of a target without links and `..`; a last part that is a link to a file, or broken, stays.

    Raises:
        DestinationError: it is the root of a file system, or no name at all.
    """
    with writing(dest):
        last_counts = dest.name not in ("", "..") and not dest.is_dir()
    real = Path(os.path.realpath(dest.parent)) / dest.name if last_counts else Path(os.path.realpath(dest))
    if not real.name:
        raise DestinationError(f"cannot write {dest}: it is the root of the file system", hint="name a folder")
    return real


def check_apart(final: Path, label: str, rules: TargetRules) -> None:
    """Refuse a target that is the source, or lies inside it; and one that holds it and is replaced whole.

    Raises:
        DestinationError: it does.
    """
    for source in rules.sources:
        if final == source or final.is_relative_to(source):
            where = "is what is read" if final == source else f"lies inside {source}, which is read"
            raise DestinationError(f"cannot write {label}: it {where}", hint="choose another name")
        if rules.whole and source.is_relative_to(final):
            raise DestinationError(
                f"cannot replace {label}: {source}, which is read, lies inside it", hint="choose another name"
            )


def stamp_of(status: os.stat_result) -> tuple[int, ...]:
    """Tells a file from another one, and from itself before a change."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def is_same(before: os.stat_result | None, path: Path) -> bool:
    """Return whether what is at `path` is what was there before, unchanged; None is nothing."""
    try:
        now = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return before is None
    return before is not None and stamp_of(now) == stamp_of(before)


def kind_of(status: os.stat_result) -> str | None:
    """The kind of a file, with its article; None if it is a regular one."""
    return next((name for matches, name in _KINDS if matches(status.st_mode)), None)


def check_file(final: Path, label: str, rules: TargetRules) -> os.stat_result | None:
    """Look at what exists where a file is to be written; None where there is nothing.

    Raises:
        DestinationError: it may not be replaced, whatever the rules (a device, a folder, a link), or by these rules.
    """
    try:
        status = final.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    kind = kind_of(status)
    if kind:
        raise DestinationError(f"cannot write {label}: it is {kind}", hint=_OTHER_NAME)
    if rules.existing is Existing.KEEP:
        raise DestinationError(f"cannot write {label}: it exists", hint=_OVERWRITE)
    if rules.existing is Existing.FORCE and file_record(final) is None:
        raise DestinationError(
            f"cannot replace {label}: ocibridge did not write it, or it was changed since", hint=_OVERWRITE
        )
    return status


def check_folder(final: Path, label: str, rules: TargetRules) -> tuple[int, int] | None:
    """Look at what exists where a folder is to be written.

    Returns:
        The number of files, and their bytes, of a folder that is replaced whole; None where it is new, empty, or added
        to.

    Raises:
        DestinationError: it may not be replaced, whatever the rules, or by these rules.
    """
    try:
        status = final.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISDIR(status.st_mode):
        raise DestinationError(
            f"cannot write the folder {label}: it is {kind_of(status) or 'a file'}", hint=_OTHER_NAME
        )
    with reading(label):
        if not rules.whole or not any(final.iterdir()):
            return None
    _check_place(final, label)
    contents = _contents(final, label)
    if rules.existing is Existing.FORCE:
        check_all_ours(final, label)
    return contents


def say_deleted(count: int, size: int, label: str, rules: TargetRules, *, dry_run: bool = False) -> None:
    """Say what will be deleted, or would be, where the user asked for that."""
    if rules.existing is Existing.DELETE:
        word = "would delete" if dry_run else "deleting"
        _log.warning(f"{word} {number(count, 'file')}, {human_size(size)}, in {label}")


def check_all_ours(folder: Path, label: str) -> None:
    """Refuse a folder that holds what ocibridge did not write, or somebody has changed since.

    Raises:
        DestinationError: it does.
    """
    names, count = foreign_files(folder)
    if count:
        more = f" and {count - len(names)} more" if count > len(names) else ""
        was = "was" if count == 1 else "were"
        raise DestinationError(
            f"cannot replace {label}: {', '.join(map(show, names))}{more} in it {was} not written by ocibridge, or "
            f"{was} changed since",
            hint="leave out --force to keep it and add what is missing, or choose another name "
            "(--delete-existing replaces the whole folder)",
        )


def _check_place(final: Path, label: str) -> None:
    """Refuse to replace a folder that others depend on."""
    homes = {Path(os.path.realpath(Path("~").expanduser()))}
    with suppress(ImportError, KeyError):
        import pwd

        homes.add(Path(os.path.realpath(pwd.getpwuid(os.geteuid()).pw_dir)))
    here = []
    with suppress(OSError):
        here.append(Path(os.path.realpath(Path.cwd())))
    for places, what in ((here, "the working folder"), (homes, "the home folder"), (mount_points(), "a mount point")):
        for place in places:
            if place == final:
                raise _refused(label, f"it is {what}")
            if place.is_relative_to(final):
                raise _refused(label, f"{what}, {place}, lies inside it")


def _refused(label: str, reason: str) -> DestinationError:
    return DestinationError(
        f"cannot replace {label}: {reason}",
        hint="leave out --force and --delete-existing to add to it, or name another",
    )


def mount_points() -> list[Path]:
    """The folders that other file systems, or parts of them, are mounted on; none where the system does not tell."""
    with suppress(OSError), open("/proc/self/mountinfo", "rb") as file:
        # proc_pid_mountinfo(5): the fifth field, with octal escapes for spaces.
        fields = [line.split(b" ")[4] for line in file]
        return [Path(os.fsdecode(each.decode("unicode_escape").encode("latin-1"))) for each in fields]
    return []


def is_mount(folder: Path) -> bool:
    """Return whether a folder is a mount point."""
    return os.path.ismount(folder) or folder in mount_points()


def _contents(folder: Path, label: str) -> tuple[int, int]:
    """The number of files in a folder, and their bytes; refuses what its user could not remove, or does not own."""
    count = size = 0
    user = os.geteuid() if hasattr(os, "geteuid") else None
    _check_owner("", folder.lstat(), user, label)
    for path, entry in walk(folder):
        with reading(entry.path):
            status = entry.stat(follow_symlinks=False)
        _check_owner(path, status, user, label)
        if not stat.S_ISDIR(status.st_mode):
            count += 1
            size += status.st_size
    return count, size


def _check_owner(path: str, status: os.stat_result, user: int | None, label: str) -> None:
    what = f"{show(path)} in it" if path else "it"
    if user is not None and status.st_uid != user:
        raise _refused(label, f"{what} belongs to another user")
    if stat.S_ISDIR(status.st_mode) and not status.st_mode & stat.S_IWUSR:
        raise _refused(label, f"{what} is read-only")
