# SPDX-License-Identifier: Apache-2.0
"""Cartons from stored models: a zip archive or a folder, MANIFEST as it was, every row checked."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from ...errors import FormatError, IntegrityError, LimitError
from ...io.content import BytesContent, Content, FileContent
from ...io.incoming import IncomingFile, read_pieces
from ...io.positioned import has_bytes
from ...io.readers import Reader
from ...io.staging import Staging
from ...paths import check_collisions, check_path, show
from ...settings import Limits
from .. import symlinks
from ..base import Sink, StoredModel
from ..foldersink import FolderSink, check_stored
from ..zip import MemberRecord, ZipWriter
from .manifest import parse_manifest
from .names import LINKS, MANIFEST
from .options import CartonWriteOptions

_LAST = {MANIFEST: 1, LINKS: 2}
_DAMAGED = "the artifact is damaged or incomplete; publish the carton again"
_NO_CARTON = "name a folder as the target, or have a carton made with --runner-name and --framework-version"


def member_order(path: str) -> tuple[int, bytes]:
    """Sort key of the members of a carton: by UTF-8 path, then MANIFEST, then LINKS."""
    return _LAST.get(path, 0), path.encode()


class CartonFolderSink(FolderSink):
    """Writes an unpacked carton; see `FolderSink`.

    Raises:
        FormatError: `stored` is no carton; see also `FolderSink`.
    """

    proves = True
    read_always = frozenset((MANIFEST,))

    def __init__(self, dest: Path, stored: StoredModel, options: CartonWriteOptions) -> None:
        _check_carton(stored, dest)
        super().__init__(dest, stored, options)
        self._manifest_check = ManifestCheck(str(dest), stored, options.limits)

    def write(self, path: str, size: int, reader: Reader, sha256: str | None = None) -> None:
        """Take one file; see `Sink.write`."""
        if path == MANIFEST:
            reader = self._manifest_check.read_manifest(reader, size).open()
        super().write(path, size, reader, sha256)

    def check(self) -> str:
        """Check every row of MANIFEST."""
        return self._manifest_check.check(self.hashes)


class CartonZipSink(Sink):
    """Writes a `.carton` file under a temporary name next to `dest`.

    If all sizes are known and nothing is compressed, each member has its place from the start and they may arrive in
    any order and at once. Otherwise members lie in the order in which they arrive; the directory is sorted either way.

    Args:
        dest: The file; what exists there is replaced only as `options.rules` say.
        stored: What will arrive, as far as is known.
        options: See `WriteOptions`.

    Raises:
        FormatError: `stored` is no carton, or has names or links that cannot be written.
        DestinationError: `dest` exists, or cannot be written.
    """

    def __init__(self, dest: Path, stored: StoredModel, options: CartonWriteOptions) -> None:
        _check_carton(stored, dest)
        self._owner = str(dest)
        check_stored(stored, self._owner)
        self._method = options.zip_method
        self._links = {file.path: file.symlink for file in stored.files if file.symlink is not None}
        self._manifest_check = ManifestCheck(self._owner, stored, options.limits)
        self._elsewhere: dict[str, str] = {}
        self._hashes: dict[str, str] = {}
        self._entries: dict[str, MemberRecord] = {}
        self._lock = threading.Lock()
        self._laid_out = stored.complete and self._method == "stored"
        self.parallel = self._laid_out
        self._kept: dict[str, int] = {}
        # Members that are compressed, or placed as they arrive, lie elsewhere each time.
        key = options.key if self._laid_out else None
        self._staging = Staging(dest, suffix=".part", rules=options.rules, key=key)
        self.journal = self._staging.journal
        try:
            sizes = {file.path: file.size or 0 for file in stored.files}
            if self._laid_out:
                self._staging.check_free_space(sum(sizes.values()))
            self._zip = ZipWriter(self._staging.temp, label=self._owner, resume=self._staging.resumed)
        except BaseException:
            self._staging.pause()
            raise
        if self._laid_out:
            for path in sorted(sizes, key=member_order):
                self._place(path, sizes[path])

    @property
    def hashes(self) -> Mapping[str, str]:
        """Hex sha256 by path of what has arrived."""
        return self._hashes

    def write(self, path: str, size: int, reader: Reader, sha256: str | None = None) -> None:
        """Take one file; see `Sink.write`."""
        check_path(path, self._owner)
        with self._lock:
            self._claim(path, size)
        try:
            self._hashes[path] = self._store(path, size, reader, sha256)
        except BaseException:
            # Whoever lost the line may try again.
            del self._hashes[path]
            raise

    def resume_file(self, path: str, size: int, whole: bool) -> Content | None:
        """Take over the start of a member; see `Sink.resume_file`."""
        count = size if whole or not self.journal else self.journal.marked(path)
        entry = self._entries.get(path)
        if not entry or path in self._links or not has_bytes(self._staging.temp, entry.data_offset + count):
            return None
        self._kept[path] = count
        return FileContent(self._staging.temp, entry.data_offset, count)

    def discard(self, paths: Sequence[str]) -> None:
        """Let files arrive again; see `Sink.discard`."""
        for path in paths:
            self._kept.pop(path, None)
            self._hashes.pop(path, None)

    def commit(self) -> str:
        """Check every row of MANIFEST, finish the archive, and rename."""
        check_collisions(self._hashes, self._owner)
        links = {path: target for path, target in self._links.items() if path in self._hashes}
        identity = self._manifest_check.check({**self._elsewhere, **self._hashes})
        missing = self._entries.keys() - self._hashes.keys()
        if missing:
            raise IntegrityError(f"{self._owner}: the file {show(min(missing))} did not arrive", hint=_DAMAGED)
        symlinks.check_targets(links, self._hashes, self._owner)
        for path in sorted(links, key=member_order):
            if not self._laid_out:
                self._place(path, 0)
            self._zip.fill(self._entries[path], [links[path].encode()])
        self._zip.finish([self._entries[path] for path in sorted(self._entries, key=member_order)])
        self._zip.close()
        self._staging.publish_file(identity)
        return identity

    def pause(self) -> None:
        """Keep what has arrived."""
        self._zip.close()
        self._staging.pause()

    def abort(self) -> None:
        """Remove the temporary file."""
        self._zip.close()
        self._staging.discard()

    def _store(self, path: str, size: int, reader: Reader, sha256: str | None) -> str:
        if path == MANIFEST:
            reader = self._manifest_check.read_manifest(reader, size).open()
        if path in self._links:
            return IncomingFile(path, size, reader).read_to_end()
        file = IncomingFile(path, size, reader, sha256)
        if self._laid_out:
            mark = partial(self.journal.mark, path) if self.journal else None
            self._zip.fill(self._entries[path], file, kept=self._kept.pop(path, 0), mark=mark)
        else:
            with self._lock:
                method = "stored" if path in _LAST else self._method
                self._entries[path] = self._zip.append(path, size, file, method)
        return file.sha256

    def _place(self, path: str, size: int) -> None:
        link = self._links.get(path)
        size = size if link is None else len(link.encode())
        self._entries[path] = self._zip.place(path, size, symlink=link is not None)

    def _claim(self, path: str, size: int) -> None:
        if path in self._hashes:
            raise FormatError(f"{self._owner}: the file {show(path)} arrives twice", hint=_DAMAGED)
        if self._laid_out:
            entry = self._entries.get(path)
            if not entry or (path not in self._links and entry.size != size):
                raise IntegrityError(
                    f"{self._owner}: the file {show(path)} with {size} bytes is not what the artifact announced",
                    hint=_DAMAGED,
                )
        self._hashes[path] = ""


class ManifestCheck:
    """Checks of written files against MANIFEST and the recorded identity."""

    def __init__(self, owner: str, stored: StoredModel, limits: Limits) -> None:
        self._owner = owner
        self._identity = stored.identity
        self._limit = limits.metadata
        self._manifest: bytes | None = None

    def read_manifest(self, reader: Reader, size: int) -> BytesContent:
        """Read MANIFEST, remember it, and give it back."""
        if size > self._limit:
            raise LimitError(f"{self._owner}: MANIFEST has {size} bytes, more than the {self._limit} accepted")
        self._manifest = b"".join(bytes(chunk) for chunk in read_pieces(reader, size))
        return BytesContent(self._manifest)

    def check(self, hashes: Mapping[str, str]) -> str:
        """The identity, if each row has arrived with its sha256."""
        if self._manifest is None:
            raise FormatError(f"{self._owner}: no MANIFEST arrived, so it is no carton", hint=_DAMAGED)
        manifest = parse_manifest(self._manifest, self._owner, self._limit)
        for path, sha256 in manifest.rows.items():
            if path not in hashes:
                raise IntegrityError(f"{self._owner}: the file {show(path)} of MANIFEST did not arrive", hint=_DAMAGED)
            if hashes[path] != sha256:
                raise IntegrityError(
                    f"{self._owner}: the file {show(path)} has not the sha256 that MANIFEST gives for it",
                    hint=_DAMAGED,
                )
        if self._identity not in (None, manifest.identity):
            raise IntegrityError(
                f"{self._owner} would be {manifest.identity}, but was published as {self._identity}", hint=_DAMAGED
            )
        return manifest.identity


def _check_carton(stored: StoredModel, dest: Path) -> None:
    if stored.complete and not any(file.path == MANIFEST for file in stored.files):
        raise FormatError(
            f"cannot write {dest}: the model has no MANIFEST, so it is no carton",
            hint=_DAMAGED if stored.format == "carton" else _NO_CARTON,
        )
    if any(file.symlink is not None and file.path in _LAST for file in stored.files):
        raise FormatError(f"cannot write {dest}: MANIFEST and LINKS cannot be symbolic links", hint=_DAMAGED)
