# SPDX-License-Identifier: Apache-2.0
"""MLSteam model archives (`.mlarchive`), v2023.1 (seed 002) and v2024.1 (the SDK's), plain and encrypted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import UsageError, reading
from ..format import Format
from ..options import ReadOptions
from .encrypted import KEY_SUFFIX, SUFFIX, is_encrypted
from .options import MlsteamWriteOptions

if TYPE_CHECKING:
    from ...model import Model, StoredModel
    from ..base import Sink
    from ..check import CheckSink

__all__ = ["MlsteamFormat", "MlsteamWriteOptions"]

_TAIL = 64 * 1024


class MlsteamFormat(Format[ReadOptions, MlsteamWriteOptions]):
    """The MLSteam archive format.

    ```python
    model = MlsteamFormat().read(Path("digits.mlarchive"), ReadOptions())
    ```
    """

    name = "mlarchive"
    label = "MLSteam archives"
    suffixes = (SUFFIX,)
    exact = True
    archive_options = frozenset({"zip_method", "hooks"})
    archive_folder = ".mlarchive/"
    read_options = ReadOptions
    write_options = MlsteamWriteOptions

    def matches(self, path: Path) -> bool:
        """Return whether `path` is a `.mlarchive` file, an encrypted package, or a zip archive of this format.

        Key files match by their name, so that `read` can refuse them.
        """
        if not path.is_file():
            return False
        if path.suffix.lower() == KEY_SUFFIX or self.suits(path):
            return True
        return is_encrypted(path) or _looks_like_archive(path)

    def read(self, path: Path, options: ReadOptions) -> Model:
        """Read the archive or package at `path`; see `read_mlarchive`."""
        from .reader import read_mlarchive

        return read_mlarchive(path, options)

    def sink(self, dest: Path, stored: StoredModel, options: MlsteamWriteOptions) -> Sink:
        """A sink for a `.mlarchive` file or a folder, as `options.packed` or else the name of `dest` says.

        An encrypted package cannot be unpacked; in a folder it is the one file that it is.

        Raises:
            UsageError: there are hooks, or a method of compression, but no new archive to put them into.
        """
        from .create import NewArchiveSink
        from .folder import MlsteamFolderSink
        from .skeleton import SKELETON
        from .skeletoncheck import is_encrypted as was_encrypted
        from .writer import ArchiveSink, EncryptedSink

        packed = self.suits(dest) if options.packed is None else options.packed
        encrypted = was_encrypted(stored)
        known = encrypted or stored.format == self.name or any(file.path == SKELETON for file in stored.files)
        if options.hooks is not None and (known or not packed):
            reason = "the model was an archive, and becomes the same again" if known else "it is a folder"
            raise UsageError(
                f"hooks go into a new MLSteam archive only, and {dest} is none: {reason}", hint="leave out --hooks"
            )
        if known and packed and options.zip_method != "stored":
            raise UsageError(
                f"--zip-method is for new MLSteam archives, and {dest} is made again as it was",
                hint="leave out --zip-method",
            )
        if not packed:
            return MlsteamFolderSink(dest, stored, options)
        if encrypted:
            return EncryptedSink(dest, stored, options)
        return (ArchiveSink if known else NewArchiveSink)(dest, stored, options)

    def checker(self, stored: StoredModel) -> CheckSink:
        """See `MlsteamCheckSink`."""
        from .folder import MlsteamCheckSink

        return MlsteamCheckSink(stored)


def _looks_like_archive(path: Path) -> bool:
    with reading(path), open(path, "rb") as file:
        if file.read(4) != b"PK\x03\x04":
            return False
        file.seek(max(0, path.stat().st_size - _TAIL))
        tail = file.read(_TAIL)
    from .manifest import MANIFEST

    return MANIFEST.encode() in tail and (b"models/" in tail or b"hooks/" in tail)
