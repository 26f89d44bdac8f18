# SPDX-License-Identifier: Apache-2.0
"""Writing a file, or its volumes, so that another process can resume what was left unfinished."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import DestinationError, IntegrityError, LimitError, can_resume, writing
from ..io.atomic import KEEP, AtomicFile, hidden_path
from ..io.content import Concatenation, Content, FileContent
from ..io.existing import Existing, TargetRules, check_apart, check_file, is_same, real_target
from ..io.hasher import BackgroundHasher
from ..io.locks import try_lock
from ..io.marker import mark_file
from ..io.merge import conflict
from .volumes import LEAST_SIZE, MOST, existing, list_path, listed_names, volume_path

_AGAIN = "run the command again, or choose another name"
_RESUME = "pack"
"""In the names of temporary files, `.NAME….ocibridge-pack.part`."""


@dataclass(frozen=True, slots=True)
class Written:
    """One file that was written.

    Attributes:
        path: Where it is.
        size: Its length in bytes.
        digest: `sha256:…` of its bytes; None for a file that is not split, as that is checked by what is in it.
    """

    path: Path
    size: int
    digest: str | None


class VolumeWriter:
    """Writes a file, or its volumes, which get their names at the end, all together.

    What an earlier writer has left unfinished is `.NAME….ocibridge-pack.part`. The next one of the same file passes it
    over as far as it would write the same bytes, and can read it (`ahead`) to know what they are.

    Args:
        path: The file.
        size: Length of a volume in bytes, the last may be shorter; None writes one file.
        hasher: Hashes the volumes.
        rules: What may happen to what exists there.
        alone: Whether files of an earlier archive of this name are replaced by this one; else they are its own.

    Attributes:
        written: Bytes so far, those among them that were passed over.
        kept: Those that were passed over.

    Raises:
        DestinationError: it cannot be written, is there already, or is being written by another process.
        LimitError: volumes of this size are too small.
    """

    def __init__(
        self,
        path: Path,
        size: int | None,
        hasher: BackgroundHasher,
        rules: TargetRules = TargetRules(),
        alone: bool = True,
    ) -> None:
        if size is not None and size < LEAST_SIZE:
            raise LimitError(f"a volume of {size} bytes is too small", hint=f"give {LEAST_SIZE} bytes or more")
        if alone and re.search(r"[\r\n\\]", path.name):
            raise DestinationError(f"{path.name!r} has a line break or a backslash in it", hint="choose another name")
        self.path = path
        self.written = self.kept = 0
        self._size = size
        self._hasher = hasher
        self._alone = alone
        self._volumes: list[AtomicFile] = []
        self._hashes: list[Any] = []
        self._same = True
        self._rules = rules
        if alone:
            check_apart(real_target(path), str(path), rules)
        self._there = self._look(existing(path, size is not None)) if alone else None
        # The temporary file of the whole is there for volumes too: its lock stands for all of them.
        self._whole = AtomicFile(path, resume=_RESUME)
        try:
            # The last number of the volumes that were left, one after the other.
            self._left = 0 if size is None else _count_left(path, size)
            _remove_left(path, self._left)
            if size is None:
                self._file = self._whole
            else:
                self._whole.truncate(0)
                self._file = self._next()
            self._found = self.ahead(sys.maxsize).size
        except BaseException:
            for file in (*self._volumes, self._whole):
                if file.left:
                    file.leave()
                else:
                    file.discard()
            raise

    def _look(self, files: Iterable[Path]) -> dict[Path, os.stat_result | None]:
        """Look at the files of an archive of this name; refuse those that may not be replaced."""
        return {each: check_file(each, str(each), self._rules) for each in files}

    @property
    def temporary(self) -> Path:
        """The file that is being written."""
        return self._file.path

    def _next(self) -> AtomicFile:
        number = len(self._volumes) + 1
        if number > MOST:
            raise LimitError(f"{self.path} would have more than {MOST} volumes", hint="make them larger")
        volume = AtomicFile(volume_path(self.path, number), resume=_RESUME)
        self._volumes.append(volume)
        self._hashes.append(hashlib.sha256())
        if number > self._left:
            volume.truncate(0)
        return volume

    def ahead(self, most: int) -> Content:
        """The next bytes that an earlier writer has left, at most so many; whether they are right nobody knows."""
        parts: list[Content] = []
        for each in self._left_ahead():
            size = min(most, each.size)
            if size:
                parts.append(FileContent(each.path, each.offset, size))
                most -= size
            if not most:
                break
        return Concatenation(parts)

    def _left_ahead(self) -> Iterator[FileContent]:
        yield FileContent(self._file.path, self._file.size, self._file.left)
        if self._volumes:
            for number in range(len(self._volumes) + 1, self._left + 1):
                yield FileContent(_temporary(self.path, number))

    def write(self, data: bytes | memoryview) -> None:
        """Append `data`, which must not change before `hasher` has been waited for.

        Raises:
            DestinationError: the disk is full, say.
            LimitError: there would be too many volumes.
        """
        view = memoryview(data)
        while view:
            space = len(view) if self._size is None else self._size - self._file.size
            if not space:
                # Of many volumes, few are open at once.
                self._file.sync(close=True)
                self._file = self._next()
                continue
            piece, view = view[:space], view[space:]
            same = self._file.keep_if_equal(piece)
            self.kept += same
            if same < len(piece):
                self._same = False
                self._file.write(piece[same:])
                if self._left > len(self._volumes):
                    # What follows was left after other bytes than these.
                    self._left = len(self._volumes)
                    _remove_left(self.path, self._left)
            if self._size is not None:
                self._hasher.update(self._hashes[-1], piece)
            self.written += len(piece)

    def truncate(self, size: int) -> None:
        """Take back what was written after the first `size` bytes of a single file.

        Raises:
            DestinationError: the file cannot be changed.
        """
        self._file.truncate(size)
        self.written = size

    def publish(self) -> list[Written]:
        """Give the volumes their names; the list of their hashes appears last.

        Raises:
            DestinationError: one cannot be written or renamed.
        """
        self._hasher.wait()
        self._file.sync(close=bool(self._volumes))
        files = self._volumes or [self._whole]
        digests = [digest.hexdigest() for digest in self._hashes]
        with writing(self.path), ExitStack() as stack:
            for file in files:
                file.path.stat()
            # Everything that needs disk space comes before anything gets a name.
            listed = stack.enter_context(AtomicFile(list_path(self.path))) if digests else None
            if listed:
                lines = [f"{digest}  {file.target.name}\n" for digest, file in zip(digests, files, strict=True)]
                listed.write("".join(lines).encode())
            old = set(self._there or ()) - {file.target for file in files}
            if self._there is not None:
                self._check_unchanged([file.target for file in files], old, bool(digests))
            # Without their list, volumes are not taken for a whole archive.
            if list_path(self.path) in old:
                old.remove(list_path(self.path))
                list_path(self.path).unlink()
            for file in files:
                if self._alone:
                    mark_file(file.path, self._rules.record)
                file.publish()
            for path in old:
                path.unlink()
            if listed:
                mark_file(listed.path, self._rules.record)
                listed.publish()
        self.close()
        if not digests:
            return [Written(self.path, self.written, None)]
        return [
            Written(file.target, file.size, f"sha256:{digest}") for file, digest in zip(files, digests, strict=True)
        ]

    def _check_unchanged(self, new: Iterable[Path], old: Iterable[Path], split: bool) -> None:
        """Refuse to replace or remove what has changed or appeared since it was looked at, or is no volume of it."""
        assert self._there is not None
        for path in {*new, *self._there, *existing(self.path, split)}:
            if not is_same(self._there.get(path), path):
                raise conflict(f"cannot write {path}: another process has made or changed it meanwhile", _AGAIN)
        listed = listed_names(self.path) if self._rules.existing is Existing.OVERWRITE else None
        for path in old:
            if listed is not None and path not in (self.path, list_path(self.path)) and path.name not in listed:
                raise conflict(
                    f"cannot replace {self.path}: {path} is a volume of another archive",
                    "remove it, or choose another name",
                )

    def worth_keeping(self, exc: BaseException) -> bool:
        """Return whether another writer should resume what is there, after this error.

        Where nothing was written yet that had not been left, a mistake in a later command does not cost it.
        """
        if isinstance(exc, IntegrityError):
            return False
        return self._found >= KEEP if self._same else self.written >= KEEP and can_resume(exc)

    def leave(self) -> None:
        """Let another writer resume."""
        for file in (*self._volumes, self._whole):
            file.leave()

    def close(self) -> None:
        """Remove what was not published."""
        for file in (*self._volumes, self._whole):
            file.discard()
        _remove_left(self.path, len(self._volumes))


def _temporary(path: Path, number: int) -> Path:
    """The temporary path of a volume."""
    return hidden_path(volume_path(path, number), f"ocibridge-{_RESUME}.part")


def _count_left(path: Path, size: int) -> int:
    """Return the number of consecutive volumes of `size` bytes that are left; the last one may be shorter."""
    for number in range(1, MOST + 1):
        try:
            there = _temporary(path, number).lstat().st_size
        except OSError:
            return number - 1
        if there != size:
            return number if there < size else number - 1
    return MOST


def _remove_left(path: Path, keep: int) -> None:
    """Remove what was left of volumes beyond number `keep`, unless another process writes it."""
    for number in range(keep + 1, MOST + 1):
        with suppress(OSError), open(_temporary(path, number), "r+b") as file:
            if try_lock(file.fileno()):
                Path(file.name).unlink()
