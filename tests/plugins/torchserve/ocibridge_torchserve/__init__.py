# SPDX-License-Identifier: Apache-2.0
"""TorchServe model archives: what every command imports, so only the declaration."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import BadZipFile, ZipFile

from ocibridge.formats.format import Format
from ocibridge.formats.options import ReadOptions, WriteOptions
from ocibridge.options import option

if TYPE_CHECKING:
    from ocibridge.formats.base import Sink
    from ocibridge.formats.check import CheckSink
    from ocibridge.model import Model, StoredModel

MANIFEST = "MAR-INF/MANIFEST.json"


@dataclass(frozen=True, kw_only=True)
class MarReadOptions(ReadOptions):
    """How an archive is read."""

    mar_version: str | None = option(None, metavar="VERSION", help="version to record, instead of modelVersion")


@dataclass(frozen=True, kw_only=True)
class MarWriteOptions(WriteOptions):
    """How an archive is written."""

    zip_method: str = option("deflate", choices=("stored", "deflate"), help="how its members are compressed")


class MarFormat(Format[MarReadOptions, MarWriteOptions]):
    """`.mar` archives, packed and unpacked."""

    name = "mar"
    label = "TorchServe archives"
    suffixes = (".mar",)
    companion = "application/vnd.oci.image.manifest.v1+json"
    read_options = MarReadOptions
    write_options = MarWriteOptions

    def matches(self, path: Path) -> bool:
        """By its name, or by its manifest."""
        if path.is_dir():
            return (path / MANIFEST).is_file()
        if self.suits(path):
            return path.is_file()
        try:
            with ZipFile(path) as archive:
                return MANIFEST in archive.namelist()
        except (BadZipFile, OSError):
            return False

    def read(self, path: Path, options: MarReadOptions) -> Model:
        """See `archive.read_mar`."""
        from .archive import read_mar

        return read_mar(path, options)

    def sink(self, dest: Path, stored: StoredModel, options: MarWriteOptions) -> Sink:
        """A `.mar` file, or the folder that it unpacks to."""
        from .archive import MarFolderSink, MarSink

        packed = self.suits(dest) if options.packed is None else options.packed
        return MarSink(dest, stored, options) if packed else MarFolderSink(dest, stored, options)

    def companion_manifest(self, model: Model) -> bytes:
        """See `archive.members_manifest`."""
        from .archive import members_manifest

        return members_manifest(model)

    def checker(self, stored: StoredModel) -> CheckSink:
        """Proves the identity."""
        from .archive import MarCheckSink

        return MarCheckSink(stored)
