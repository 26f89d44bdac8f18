# SPDX-License-Identifier: Apache-2.0
"""Thin cartons: what is large stays where it is, and LINKS says where (seed 000, "LINKS")."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from ... import settings
from ...errors import FormatError, UsageError
from ...io.content import BytesContent
from ...model import FileEntry, Role, StoredModel
from .. import symlinks
from ..base import Sink
from ..format import Blobs
from .fetch import check_open
from .manifest import parse_manifest
from .names import CARTON_TOML, EXACT, INDEX_TOML, LINKS, MANIFEST
from .options import CartonWriteOptions
from .writer import CartonZipSink

_INSIDE = (MANIFEST, LINKS, CARTON_TOML, INDEX_TOML)


def thin_sink(
    dest: Path, stored: StoredModel, options: CartonWriteOptions, blobs: Blobs
) -> tuple[Sink, Mapping[str, str]]:
    """A sink for a carton without its large files, and those; see `Format.thin_sink`.

    Raises:
        UsageError: the artifact contains one whole archive.
        FormatError: it is no carton.
        SourceError: the registry does not give blobs without a login.
    """
    check_single_files(stored, blobs.owner, "a thin carton")
    manifest = parse_manifest(blobs.read(MANIFEST), blobs.owner, options.limits.metadata)
    linked = linked_files(stored, manifest.rows, blobs.owner)
    for sha256 in sorted(set(linked.values()))[:1]:
        check_open(blobs.url(sha256), blobs.host)
    return ThinCartonSink(dest, stored, options, linked, links_file(linked, blobs.url)), linked


def check_single_files(stored: StoredModel, owner: str, what: str) -> None:
    """Refuse a model that is no carton with a blob for each of its files.

    Args:
        stored: The model.
        owner: Description of the source for messages.
        what: What cannot be had without.

    Raises:
        UsageError: it is one whole archive.
        FormatError: it has no MANIFEST.
    """
    if EXACT in stored.origin:
        raise UsageError(
            f"{owner} contains one whole archive, and {what} needs a layer for each file",
            hint="push the carton with --layers raw-files, and without --exact",
        )
    if not any(each.path == MANIFEST for each in stored.files):
        raise FormatError(f"{owner} has no MANIFEST, so it is no carton", hint="leave out the option")


def linked_files(stored: StoredModel, rows: Mapping[str, str], owner: str) -> dict[str, str]:
    """The files of a raw carton that a thin one only links to: path and sha256.

    Weights, and every other file of `settings.THIN_FILE` bytes or more. What the carton client needs to open a carton
    stays inside, and so does what has no row in MANIFEST, because LINKS is about rows. A symbolic link goes with the
    file that it leads to: it has the same row.

    Args:
        stored: The carton, with size and sha256 of every file.
        rows: Its MANIFEST.
        owner: Description of the source for messages.
    """
    paths = {file.path for file in stored.files}
    targets = {file.path: file.symlink for file in stored.files if file.symlink is not None}
    leads_to = symlinks.resolve(targets, paths - targets.keys(), owner)
    by_path = {file.path: file for file in stored.files}

    def outside(file: FileEntry) -> bool:
        final = by_path[leads_to.get(file.path, file.path)]
        known = {file.path, final.path}
        if known & set(_INSIDE) or not known <= rows.keys() or not final.size:
            return False
        return final.role is Role.WEIGHT or final.size >= settings.THIN_FILE

    return {file.path: file.sha256 or "" for file in stored.files if outside(file)}


def links_file(hashes: Mapping[str, str], url_of: Callable[[str], str]) -> bytes:
    """A LINKS file (TOML) for these files."""
    rows = (f"{sha256} = [{json.dumps(url_of(sha256))}]\n" for sha256 in sorted(set(hashes.values())))
    return ("version = 1\n\n[urls]\n" + "".join(rows)).encode()


class ThinCartonSink(CartonZipSink):
    """Writes a `.carton` file without the files that its LINKS names; see `CartonZipSink`.

    Args:
        dest: The file.
        stored: The whole carton.
        options: See `WriteOptions`.
        linked: Path and sha256 of what will not arrive.
        links: LINKS, byte for byte.
    """

    def __init__(
        self, dest: Path, stored: StoredModel, options: CartonWriteOptions, linked: Mapping[str, str], links: bytes
    ) -> None:
        inside = [file for file in stored.files if file.path not in linked and file.path != LINKS]
        entry = FileEntry(LINKS, Role.WEIGHT_CONFIG, len(links))
        super().__init__(dest, replace(stored, files=(*inside, entry)), options)
        self._elsewhere = dict(linked)
        self._links_file = links

    def commit(self) -> str:
        """Add LINKS, and finish as every carton."""
        reader: io.RawIOBase = BytesContent(self._links_file).open()
        self.write(LINKS, len(self._links_file), reader)
        return super().commit()
