# SPDX-License-Identifier: Apache-2.0
"""A sink that writes a model as a folder; formats that are a folder build on it."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ..errors import FormatError, writing
from ..io.append import check_size, grow, is_large, kept_part
from ..io.content import Content, Reader
from ..io.positioned import fsync_all, turns
from ..io.staging import Staging
from ..paths import check_collisions, check_path, show
from . import symlinks
from .base import Sink, StoredModel, WriteOptions


class FolderSink(Sink):
    """Writes each file under its path, in a temporary folder beside `dest` that is renamed at the end.

    What an interrupted process has left of the same artifact is taken up again (see `Sink.keep`).

    Modes are what the umask leaves of 0644 and 0755. Where `stored` says that the source had a symbolic link, the
    bytes are only hashed, and the link is made once everything is there and its target has the same bytes.

    Args:
        dest: The folder; must not exist, or be empty, unless `options.force`.
        stored: What will arrive, as far as is known.
        options: `force` is the one that matters here.

    Attributes:
        hashes: Hex sha256 by path of what has arrived; empty where nothing is compared with it.

    Raises:
        FormatError: `stored` has names that cannot be in one folder, or links that lead nowhere.
        DestinationError: `dest` exists, or cannot be written.
    """

    parallel = True
    proves = False
    """Whether `check` needs the hash of every file, beyond the digests that the blobs are held to."""

    def __init__(self, dest: Path, stored: StoredModel, options: WriteOptions) -> None:
        self.hashes: dict[str, str] = {}
        self._owner = str(dest)
        self._links = {file.path: file.symlink for file in stored.files if file.symlink is not None}
        self._lock = threading.Lock()
        check_stored(stored, self._owner)
        self._checked = {file.path for file in stored.files}
        self._kept: dict[str, int] = {}
        self._small: list[str] = []
        self._folders: set[str] = set()
        self._staging = Staging(dest, force=options.force, empty=True, key=options.key)
        self._root = str(self._staging.temp)
        self.journal = self._staging.journal
        try:
            if stored.complete:
                self._staging.need(sum(file.size or 0 for file in stored.files if file.symlink is None))
            with writing(dest):
                self._staging.temp.mkdir(exist_ok=True)
        except BaseException:
            self._staging.suspend()
            raise

    def write(self, path: str, size: int, reader: Reader, sha256: str | None = None) -> None:
        """Take one file; see `Sink.write`."""
        if path not in self._checked:
            check_path(path, self._owner)
        with self._lock:
            if path in self.hashes:
                raise FormatError(f"{self._owner}: the file {show(path)} arrives twice")
            self.hashes[path] = ""
        try:
            linked = path in self._links
            self.hashes[path] = self._drain(path, size, reader) if linked else self._store(path, size, reader, sha256)
        except BaseException:
            # Whoever lost the line may try again.
            del self.hashes[path]
            raise

    def keep(self, path: str, size: int, whole: bool) -> Content | None:
        """Take over the start of a file; see `Sink.keep`."""
        place = self._staging.temp / check_path(path, self._owner)
        found = None if path in self._links else kept_part(place, path, size, whole, self.journal)
        if found:
            self._kept[path] = found.size
        return found

    def release(self, paths: Sequence[str]) -> None:
        """Let files arrive again; see `Sink.release`."""
        for path in paths:
            self._kept.pop(path, None)
            self.hashes.pop(path, None)

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
        self._staging.publish_folder()
        return identity

    def check(self) -> str | None:
        """Check what has arrived against the format's own metadata; for subclasses."""
        return None

    def suspend(self) -> None:
        """Keep what has arrived."""
        self._staging.suspend()

    def abort(self) -> None:
        """Remove the temporary folder."""
        self._staging.discard()

    def _store(self, path: str, size: int, reader: Reader, sha256: str | None) -> str:
        # Text, and not `Path`: a model may have very many small files.
        target = f"{self._root}/{path}"
        folder = target[: target.rindex("/")]
        large = is_large(size)
        mark = partial(self.journal.mark, path) if self.journal and large else None
        hashed = sha256 is None and (self.proves or bool(self._links))
        try:
            if folder not in self._folders:
                os.makedirs(folder, exist_ok=True)  # noqa: PTH103
                self._folders.add(folder)
            found = grow(target, path, size, reader, hashed=hashed, kept=self._kept.pop(path, 0), mark=mark)
        except OSError:
            with writing(f"{self._owner}/{path}"):
                raise
        if not large:
            self._small.append(target)
        return found or sha256 or ""

    def _remove_others(self) -> None:
        """Remove what an earlier process wrote and nobody has asked for now."""
        for root, _, names in os.walk(self._staging.temp):
            for name in names:
                place = Path(root, name)
                if place.relative_to(self._staging.temp).as_posix() not in self.hashes:
                    place.unlink()

    def _drain(self, path: str, size: int, reader: Reader) -> str:
        digest = hashlib.sha256()
        done = 0
        for chunk in turns(reader, size):
            digest.update(chunk)
            done += len(chunk)
        check_size(path, done, size)
        return digest.hexdigest()

    def _make_link(self, path: str, target: str, final: str) -> None:
        place = self._staging.temp / path
        with writing(self._staging.dest / path):
            place.parent.mkdir(parents=True, exist_ok=True)
            try:
                place.symlink_to(target)
            except (OSError, NotImplementedError):
                # A system or a user without symbolic links: the bytes are what counts.
                shutil.copyfile(self._staging.temp / final, place)


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
