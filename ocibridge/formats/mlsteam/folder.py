# SPDX-License-Identifier: Apache-2.0
"""An MLSteam archive as a folder, and one that is only checked."""

from __future__ import annotations

from pathlib import Path

from ...errors import FormatError, writing
from ...io.incoming import IncomingFile, check_size
from ...io.readers import Reader
from ...model import StoredModel
from ...paths import show
from ...settings import DEFAULT_LIMITS
from ..base import WriteOptions
from ..check import CheckSink
from ..foldersink import FolderSink
from .manifest import MANIFEST
from .skeleton import FOLDER, SKELETON
from .skeletoncheck import DAMAGED, SkeletonCheck


class MlsteamFolderSink(FolderSink):
    """Writes the members of an archive as a folder, empty folders too; see `FolderSink`.

    What ocibridge itself put into the artifact (`.mlarchive/`) is checked and left out.
    """

    proves = True
    read_always = frozenset((SKELETON, MANIFEST))

    def __init__(self, dest: Path, stored: StoredModel, options: WriteOptions) -> None:
        super().__init__(dest, stored, options)
        self._label = str(dest)
        self._skeleton_check = SkeletonCheck(self._label, stored, options.limits)
        self._ours: dict[str, str] = {}

    def write(self, path: str, size: int, reader: Reader, sha256: str | None = None) -> None:
        """Take one file; see `Sink.write`."""
        metadata = self._skeleton_check.metadata(path, size, reader)
        if metadata:
            check_size(path, metadata.size, size)
            reader = metadata.open()
        if not path.startswith(FOLDER):
            super().write(path, size, reader, sha256)
        elif path in self._ours:
            raise FormatError(f"{self._label}: the file {show(path)} arrives twice", hint=DAMAGED)
        else:
            self._ours[path] = IncomingFile(path, size, reader, sha256).read_to_end()

    def check(self) -> str | None:
        """Check every member, and make the folders that are members."""
        identity = self._skeleton_check.check({**self.hashes, **self._ours})
        skeleton = self._skeleton_check.skeleton
        for member in skeleton.members if skeleton else ():
            if member.is_dir:
                self.folders.append(member.name.rstrip("/"))
                with writing(self._label):
                    (self._staging.temp / member.name).mkdir(parents=True, exist_ok=True)
        return identity


class MlsteamCheckSink(CheckSink):
    """A `CheckSink` that proves the identity of an MLSteam archive."""

    def __init__(self, stored: StoredModel) -> None:
        super().__init__(stored)
        self._skeleton_check = SkeletonCheck("the archive", stored, DEFAULT_LIMITS)

    def write(self, path: str, size: int, reader: Reader, sha256: str | None = None) -> None:
        """Read one file to its end; see `CheckSink.write`."""
        metadata = self._skeleton_check.metadata(path, size, reader)
        if metadata:
            check_size(path, metadata.size, size)
            reader = metadata.open()
        super().write(path, size, reader, sha256)

    def commit(self) -> str | None:
        """The identity, once every member is held against the skeleton."""
        return self._skeleton_check.check(self.hashes)
