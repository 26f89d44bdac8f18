# SPDX-License-Identifier: Apache-2.0
"""MLSteam archives and encrypted packages from models that were one."""

from __future__ import annotations

from pathlib import Path

from ...errors import FormatError, IntegrityError, writing
from ...io.content import FileContent
from ...io.incoming import IncomingFile, check_size
from ...io.positioned import append_file
from ...io.readers import Reader
from ...io.staging import Staging
from ...paths import check_path, show
from ..base import Sink, StoredModel, WriteOptions
from ..foldersink import check_stored
from ..onefile import OneFileSink
from ..zip import read_directory
from .rebuild import Rebuild
from .skeleton import ORIGINAL, SKELETON, Skeleton, SkeletonMember
from .skeletoncheck import DAMAGED, SkeletonCheck

EXACT = "exact"
EQUIVALENT = "equivalent"


class EncryptedSink(OneFileSink):
    """Writes an encrypted package as it was; see `OneFileSink`."""

    def __init__(self, dest: Path, stored: StoredModel, options: WriteOptions) -> None:
        super().__init__(dest, stored, options)
        self._check = SkeletonCheck(str(dest), stored, options.limits)

    def check(self) -> str | None:
        """Check the sha256."""
        self.note = EXACT
        return self._check.check(self.hashes)


class ArchiveSink(Sink):
    """Writes an archive again from its skeleton, or takes over the original where that travels along.

    The next file of the archive is written directly; earlier files wait next to `dest`. The
    disk then holds the archive and what waits: at the worst, with the skeleton last, every file decompressed.

    Args:
        dest: The file; what exists there is replaced only as `options.rules` say.
        stored: What will arrive, as far as is known.
        options: See `WriteOptions`.

    Attributes:
        note: `exact` where the archive has the bytes that it had, else `equivalent`: the same members, names, order,
            attributes and contents, compressed by another codec.

    Raises:
        FormatError: `stored` has names that cannot be written.
        DestinationError: `dest` exists, or cannot be written.
    """

    def __init__(self, dest: Path, stored: StoredModel, options: WriteOptions) -> None:
        self._owner = str(dest)
        check_stored(stored, self._owner)
        self._limits = options.limits
        self._skeleton_check = SkeletonCheck(self._owner, stored, options.limits)
        self._hashes: dict[str, str] = {}
        self._staging = Staging(dest, suffix=".part", rules=options.rules)
        self._waiting: dict[str, FileContent] = {}
        self._waiting_folder = self._staging.path / "waiting"
        self._rebuild: Rebuild | None = None
        with writing(dest):
            self._waiting_folder.mkdir()

    def write(self, path: str, size: int, reader: Reader, sha256: str | None = None) -> None:
        """Take one file; see `Sink.write`."""
        check_path(path, self._owner)
        if path in self._hashes:
            raise FormatError(f"{self._owner}: the file {show(path)} arrives twice", hint=DAMAGED)
        metadata = self._skeleton_check.metadata(path, size, reader)
        if metadata:
            check_size(path, metadata.size, size)
            reader = metadata.open()
        incoming = IncomingFile(path, size, reader, sha256)
        self._take(path, incoming)
        self._hashes[path] = incoming.sha256

    def commit(self) -> str | None:
        """Check everything that has arrived against the skeleton and the archive against both, and rename."""
        identity = self._skeleton_check.check(self._hashes)
        skeleton = self._skeleton_check.skeleton
        if skeleton is None:
            raise FormatError(f"{self._owner}: no {SKELETON} arrived", hint=DAMAGED)
        if self._rebuild:
            exact = self._rebuild.finish(self._limits)
            self._rebuild.close()
        else:
            self._check_original(skeleton)
            exact = True
        self._staging.publish_file(identity)
        self.note = EXACT if exact else EQUIVALENT
        return identity

    def abort(self) -> None:
        """Remove everything temporary."""
        if self._rebuild:
            self._rebuild.close()
        self._staging.discard()

    def _take(self, path: str, incoming: IncomingFile) -> None:
        skeleton = self._skeleton_check.skeleton
        member = self._rebuild.next if self._rebuild else None
        if path == ORIGINAL and not self._rebuild:
            self._copy(incoming, self._staging.temp)
        elif path == SKELETON:
            incoming.read_to_end()
        elif member and member.name == path and self._rebuild:
            self._rebuild.add(incoming)
        elif skeleton and skeleton.original:
            incoming.read_to_end()
        else:
            place = self._waiting_folder / str(len(self._hashes))
            self._copy(incoming, place)
            self._waiting[path] = FileContent(place)
        if skeleton and not skeleton.original:
            self._advance(skeleton)

    def _copy(self, incoming: IncomingFile, target: Path) -> None:
        with writing(self._owner):
            append_file(target, incoming)

    def _advance(self, skeleton: Skeleton) -> None:
        """Write the files that waited."""
        if not self._rebuild:
            if ORIGINAL in self._hashes:
                raise FormatError(f"{self._owner}: {ORIGINAL} should not be there", hint=DAMAGED)
            self._rebuild = Rebuild(skeleton, self._staging.temp, self._owner)
        while (member := self._rebuild.next) and (member.is_dir or member.name in self._waiting):
            self._from_disk(self._rebuild, member)

    def _from_disk(self, rebuild: Rebuild, member: SkeletonMember) -> None:
        if member.is_dir:
            rebuild.add([])
            return
        content = self._waiting[member.name]
        with content.open() as reader:
            rebuild.add(IncomingFile(member.name, content.size, reader, member.sha256))
        del self._waiting[member.name]
        with writing(self._owner):
            content.path.unlink()

    def _check_original(self, skeleton: Skeleton) -> None:
        """The original has the members that have arrived, as far as its directory tells."""
        found = [(member.name, member.size, member.crc) for member in read_directory(self._staging.temp, self._limits)]
        if found != [(member.name, member.size, member.crc) for member in skeleton.members]:
            raise IntegrityError(f"{self._owner}: the archive and its members differ", hint=DAMAGED)
