# SPDX-License-Identifier: Apache-2.0
"""A sink that writes a model as a folder; formats that are a folder build on it."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ..errors import FormatError, writing
from ..io.content import Content
from ..io.incoming import IncomingFile
from ..io.marker import MARKER
from ..io.merge import ExpectedFile
from ..io.positioned import append_file, fsync_all, is_large, resumable_file
from ..io.readers import Reader
from ..io.staging import Staging
from ..paths import check_collisions, check_path, show
from . import symlinks
from .base import Sink, StoredModel, WriteOptions


class FolderSink(Sink):
    """Writes each file under its path, in a temporary folder next to `dest` that is renamed at the end.

    What an interrupted process has left of the same artifact is taken up again (see `Sink.resume_file`).

    Modes are what the umask leaves of 0644 and 0755. Where `stored` says that the source had a symbolic link, the
    bytes are only hashed, and the link is made once everything is there and its target has the same bytes.

    Args:
        dest: The folder; one that exists is added to, or replaced, as `options.rules` say.
        stored: What will arrive, as far as is known.
        options: See `WriteOptions`.

    Attributes:
        hashes: Hex sha256 by path of what has arrived; empty where nothing is compared with it.
        folders: Paths of empty folders, which subclasses add to in `check`.

    Raises:
        FormatError: `stored` has names that cannot be in one folder, or links that lead nowhere.
        DestinationError: something at `dest` is in the way, or cannot be written.
    """

    parallel = True
    read_always: frozenset[str] = frozenset()
    """Files that `write` has to see, even if the folder has them already."""
    proves = False
    """Whether `check` needs the hash of every file, beyond the digests that the blobs are held to."""

    def __init__(self, dest: Path, stored: StoredModel, options: WriteOptions) -> None:
        self.hashes: dict[str, str] = {}
        self.folders: list[str] = []
        self._owner = str(dest)
        self._links = {file.path: file.symlink for file in stored.files if file.symlink is not None}
        self._lock = threading.Lock()
        check_stored(stored, self._owner)
        self._checked = {file.path for file in stored.files}
        self._kept: dict[str, int] = {}
        self._small: list[str] = []
        self._folders: set[str] = set()
        if MARKER in {path.split("/")[0] for path in self._checked}:
            raise _taken(self._owner)
        self._staging = Staging(dest, folder=True, rules=options.rules, key=options.key)
        self._root = str(self._staging.temp)
        self.journal = self._staging.journal
        try:
            if self._staging.merge:
                files = (ExpectedFile(each.path, each.size, each.sha256, each.symlink) for each in stored.files)
                self._staging.check_free_space(self._staging.merge.check(files))
            elif stored.complete:
                self._staging.check_free_space(sum(file.size or 0 for file in stored.files if file.symlink is None))
            with writing(dest):
                self._staging.temp.mkdir(exist_ok=True)
        except BaseException:
            self._staging.pause()
            raise

    def write(self, path: str, size: int, reader: Reader, sha256: str | None = None) -> None:
        """Take one file; see `Sink.write`."""
        if path not in self._checked:
            check_path(path, self._owner)
            if path.split("/")[0] == MARKER:
                raise _taken(self._owner)
        with self._lock:
            if path in self.hashes:
                raise FormatError(f"{self._owner}: the file {show(path)} arrives twice")
            self.hashes[path] = ""
        try:
            if path in self._links:
                self.hashes[path] = IncomingFile(path, size, reader).read_to_end()
            else:
                self.hashes[path] = self._store(path, size, reader, sha256)
        except BaseException:
            # Whoever lost the line may try again.
            del self.hashes[path]
            raise

    def has(self, path: str, size: int, sha256: str) -> bool:
        """Return whether the folder that is added to has the file; see `Sink.has`."""
        merge = self._staging.merge
        if not merge or path in self._links or path in self.read_always or not merge.has(path, size, sha256):
            return False
        self.hashes[path] = sha256
        return True

    def resume_file(self, path: str, size: int, whole: bool) -> Content | None:
        """Take over the start of a file; see `Sink.resume_file`."""
        place = self._staging.temp / check_path(path, self._owner)
        found = None if path in self._links else resumable_file(place, path, size, whole, self.journal)
        if found:
            self._kept[path] = found.size
        return found

    def discard(self, paths: Sequence[str]) -> None:
        """Let files arrive again; see `Sink.discard`."""
        for path in paths:
            self._kept.pop(path, None)
            self.hashes.pop(path, None)
        if self._staging.merge:
            self._staging.merge.discard(paths)

    def commit(self) -> str | None:
        """Check the whole, make the links, and rename; the identity that `check` returns."""
        if not self._checked.issuperset(self.hashes):
            check_collisions(self.hashes, self._owner)
        links = {path: target for path, target in self._links.items() if path in self.hashes}
        symlinks.check_targets(links, self.hashes, self._owner)
        identity = self.check()
        if self._staging.resumed:
            self._remove_others()
        with writing(self._staging.dest):
            fsync_all(self._staging.temp, self._small)
        for path, final in symlinks.resolve(links, self.hashes.keys() - links.keys(), self._owner).items():
            self._make_link(path, links[path], final)
        self.changes = self._staging.publish_folder(self.hashes, self.folders)
        return identity

    def check(self) -> str | None:
        """Check what has arrived against the format's own metadata; for subclasses."""
        return None

    def pause(self) -> None:
        """Keep what has arrived."""
        self._staging.pause()

    def abort(self) -> None:
        """Remove the temporary folder."""
        self._staging.discard()

    def _store(self, path: str, size: int, reader: Reader, sha256: str | None) -> str:
        # Text, and not `Path`: a model may have very many small files.
        target = f"{self._root}/{path}"
        folder = target[: target.rindex("/")]
        large = is_large(size)
        mark = partial(self.journal.mark, path) if self.journal and large else None
        if sha256 is None and not (self.proves or self._links):
            sha256 = ""  # nobody asks for it
        file = IncomingFile(path, size, reader, sha256)
        try:
            if folder not in self._folders:
                os.makedirs(folder, exist_ok=True)  # noqa: PTH103
                self._folders.add(folder)
            append_file(target, file, kept=self._kept.pop(path, 0), mark=mark)
        except OSError:
            with writing(f"{self._owner}/{path}"):
                raise
        if not large:
            self._small.append(path)
        return file.sha256

    def _remove_others(self) -> None:
        """Remove what an earlier process wrote and nobody has asked for now."""
        for root, _, names in os.walk(self._staging.temp):
            for name in names:
                place = Path(root, name)
                if place.relative_to(self._staging.temp).as_posix() not in self.hashes:
                    place.unlink()

    def _make_link(self, path: str, target: str, final: str) -> None:
        place = self._staging.temp / path
        with writing(self._staging.dest / path):
            place.parent.mkdir(parents=True, exist_ok=True)
            try:
                place.symlink_to(target)
            except (OSError, NotImplementedError):
                # A system or a user without symbolic links: the bytes are what counts.
                shutil.copyfile(self._staging.temp / final, place)


def _taken(owner: str) -> FormatError:
    return FormatError(
        f"{owner}: the model has a file {MARKER}, and ocibridge keeps its own record of the folder under this name",
        hint="rename the file, and publish the model again",
    )


def check_stored(stored: StoredModel, owner: str) -> None:
    """Refuse a stored model that cannot be written, before anything is moved.

    Raises:
        FormatError: names collide, or (where all files are known) a link leads nowhere.
    """
    paths = [check_path(file.path, owner) for file in stored.files]
    check_collisions(paths, owner)
    links = {file.path: file.symlink for file in stored.files if file.symlink is not None}
    if stored.complete:
        symlinks.resolve(links, set(paths) - links.keys(), owner)
