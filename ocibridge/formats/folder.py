# SPDX-License-Identifier: Apache-2.0
"""A sink that writes a model as a folder; formats that are a folder build on it."""

from __future__ import annotations

import hashlib
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

from ..content import Reader, chunks, fsync
from ..errors import FormatError, IntegrityError, writing
from ..paths import check_collisions, check_path, show
from ..settings import READ_SIZE
from . import symlinks
from .base import Sink, StoredModel, WriteOptions
from .staging import Staging


class FolderSink(Sink):
    """Writes each file under its path, in a temporary folder beside `dest` that is renamed at the end.

    Modes are what the umask leaves of 0644 and 0755. Where `stored` says that the source had a symbolic link, the
    bytes are only hashed, and the link is made once everything is there and its target has the same bytes.

    Args:
        dest: The folder; must not exist, or be empty, unless `options.force`.
        stored: What will arrive, as far as is known.
        options: `force` is the one that matters here.

    Attributes:
        hashes: Hex sha256 by path of what has arrived.

    Raises:
        FormatError: `stored` has names that cannot be in one folder, or links that lead nowhere.
        DestinationError: `dest` exists, or cannot be written.
    """

    parallel = True

    def __init__(self, dest: Path, stored: StoredModel, options: WriteOptions) -> None:
        self.hashes: dict[str, str] = {}
        self._owner = str(dest)
        self._links = {file.path: file.symlink for file in stored.files if file.symlink is not None}
        self._lock = threading.Lock()
        check_stored(stored, self._owner)
        self._staging = Staging(dest, force=options.force, empty=True)
        with writing(dest):
            self._staging.temp.mkdir()

    def write(self, path: str, size: int, reader: Reader, sha256: str | None = None) -> None:
        """Take one file; see `Sink.write`."""
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

    def commit(self) -> str | None:
        """Check the whole, make the links, and rename; the identity that `check` returns."""
        check_collisions(self.hashes, self._owner)
        links = {path: target for path, target in self._links.items() if path in self.hashes}
        symlinks.check_targets(links, self.hashes, self._owner)
        identity = self.check()
        for path, final in symlinks.resolve(links, self.hashes.keys() - links.keys(), self._owner).items():
            self._make_link(path, links[path], final)
        self._staging.publish_folder()
        return identity

    def check(self) -> str | None:
        """Check what has arrived against the format's own metadata; for subclasses."""
        return None

    def abort(self) -> None:
        """Remove the temporary folder."""
        self._staging.discard()

    def _store(self, path: str, size: int, reader: Reader, sha256: str | None) -> str:
        target = self._staging.temp / path
        digest = None if sha256 else hashlib.sha256()
        done = 0
        with writing(self._staging.dest / path):
            target.parent.mkdir(parents=True, exist_ok=True)
            with open(target, "xb", buffering=0) as file:
                try:
                    for chunk in pieces(reader, size):
                        if digest:
                            digest.update(chunk)
                        done += len(chunk)
                        while chunk:
                            chunk = chunk[file.write(chunk) :]
                    check_size(path, done, size)
                    fsync(file)
                except BaseException:
                    target.unlink()
                    raise
        return digest.hexdigest() if digest else str(sha256)

    def _drain(self, path: str, size: int, reader: Reader) -> str:
        digest = hashlib.sha256()
        done = 0
        for chunk in pieces(reader, size):
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


def pieces(reader: Reader, size: int) -> Iterator[memoryview]:
    """Read to the end what should have `size` bytes; the lengths of the pieces depend on nothing but `size`."""
    return chunks(reader, min(size + 1, READ_SIZE))


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


def check_size(path: str, done: int, size: int) -> None:
    """Raise `IntegrityError` unless `done` bytes arrived of the `size` promised."""
    if done != size:
        raise IntegrityError(f"{show(path)} has {done} bytes, not the {size} promised", hint="run the command again")
