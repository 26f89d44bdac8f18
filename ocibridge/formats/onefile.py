# SPDX-License-Identifier: Apache-2.0
"""A sink for a model that is one file, such as an archive that travels as it is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ..errors import FormatError, IntegrityError, writing
from ..io.content import Content
from ..io.incoming import IncomingFile
from ..io.positioned import append_file, resumable_file
from ..io.readers import Reader
from ..io.staging import Staging
from ..paths import show
from .base import Sink, StoredModel, WriteOptions
from .foldersink import check_stored

_DAMAGED = "the artifact is damaged or incomplete; publish the model again"


class OneFileSink(Sink):
    """Writes the only file of a model under a temporary name, and takes up what an interrupted process has left of it.

    Args:
        dest: The file; what exists there is replaced only as `options.rules` say.
        stored: What will arrive.
        options: See `WriteOptions`.
        unpacks: Whether `dest` becomes a folder that a subclass unpacks the file into.

    Attributes:
        hashes: Hex sha256 by path of what has arrived.

    Raises:
        FormatError: `stored` has several files.
        DestinationError: `dest` exists, or cannot be written.
    """

    def __init__(self, dest: Path, stored: StoredModel, options: WriteOptions, *, unpacks: bool = False) -> None:
        self.hashes: dict[str, str] = {}
        self._owner = str(dest)
        check_stored(stored, self._owner)
        if stored.complete and len(stored.files) != 1:
            raise FormatError(
                f"cannot write {dest}: the artifact has {len(stored.files)} files, not one", hint=_DAMAGED
            )
        self._announced = {file.path for file in stored.files}
        self._kept = 0
        part = "archive" if unpacks else ""
        self._staging = Staging(
            dest, suffix="" if unpacks else ".part", folder=unpacks, rules=options.rules, key=options.key, part=part
        )
        self.journal = self._staging.journal

    def write(self, path: str, size: int, reader: Reader, sha256: str | None = None) -> None:
        """Take the file; see `Sink.write`."""
        if self.hashes or (self._announced and path not in self._announced):
            raise IntegrityError(
                f"{self._owner}: the file {show(path)} arrived, which the artifact did not announce", hint=_DAMAGED
            )
        mark = partial(self.journal.mark, path) if self.journal else None
        incoming = IncomingFile(path, size, reader, sha256)
        with writing(self._owner):
            append_file(self._staging.temp, incoming, kept=self._kept, mark=mark)
        self.hashes[path] = incoming.sha256

    def resume_file(self, path: str, size: int, whole: bool) -> Content | None:
        """Take over the start of the file; see `Sink.resume_file`."""
        found = resumable_file(self._staging.temp, path, size, whole, self.journal)
        self._kept = found.size if found else 0
        return found

    def discard(self, paths: Sequence[str]) -> None:
        """Let the file arrive again; see `Sink.discard`."""
        self._kept = 0
        self.hashes.clear()

    def commit(self) -> str | None:
        """Check the file, and give it its final name; the identity that `check` returns."""
        if not self.hashes:
            raise IntegrityError(f"{self._owner}: the file did not arrive", hint=_DAMAGED)
        identity = self.check()
        self._staging.publish_file(identity)
        return identity

    def check(self) -> str | None:
        """Check what has arrived against the format's own metadata; for subclasses."""
        return None

    def pause(self) -> None:
        """Keep what has arrived."""
        self._staging.pause()

    def abort(self) -> None:
        """Remove the temporary file and its resume journal; does nothing after `commit` (`pause` keeps them)."""
        self._staging.discard()
