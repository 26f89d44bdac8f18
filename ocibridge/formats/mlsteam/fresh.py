# SPDX-License-Identifier: Apache-2.0
"""A new MLSteam archive from a model that never was one."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from ...content import BytesContent, Reader, chunks
from ...errors import FormatError, LimitError, UsageError
from ...paths import check_collisions, check_path, show
from ..base import Sink, StoredModel, WriteOptions
from ..folder import check_size, check_stored
from ..staging import Staging
from ..zip import Entry, ZipWriter
from .encrypted import KEY_SUFFIX
from .incoming import Incoming
from .manifest import MANIFEST, parse_manifest, synthesise

_METHODS = ("stored", "deflate")
_FOLDERS = ("models", "hooks", "src")
_UNSAFE = re.compile(r"[^\w.+-]+")


class NewArchiveSink(Sink):
    """Writes a new archive: manifest.json, then `models/`, `hooks/`, `src/`.

    A model that brings its own manifest.json keeps its paths. For any other one a manifest of v2024.1 is made, and
    files outside of the three folders move into `models/<name of the model>/`. Members lie in the order in which they
    arrive, and the directory lists them in order.

    Args:
        dest: The file; must not exist unless `options.force`.
        stored: What will arrive, as far as is known.
        options: `zip_method` may be `stored` or `deflate`, the two that the MLSteam SDK reads.

    Raises:
        FormatError: `stored` has names or links that cannot be written.
        DestinationError: `dest` exists, or cannot be written.
        UsageError: the SDK does not read the zip method.
    """

    def __init__(self, dest: Path, stored: StoredModel, options: WriteOptions) -> None:
        if options.zip_method not in _METHODS:
            raise UsageError(
                f"the MLSteam SDK reads no archive that is compressed by {options.zip_method}",
                hint=f"use {' or '.join(_METHODS)}",
            )
        self._owner = str(dest)
        check_stored(stored, self._owner)
        self._method = options.zip_method
        self._limit = options.limits.metadata
        name = stored.info.name or stored.info.title or dest.stem
        self._submodel = _UNSAFE.sub("-", name)[:100].strip("-.") or "model"
        self._own_manifest = any(file.path == MANIFEST for file in stored.files)
        self._names: dict[str, str] = {}
        self._hashes: dict[str, str] = {}
        self._entries: dict[str, Entry] = {}
        self._staging = Staging(dest, suffix=".part", force=options.force)
        self._zip = ZipWriter(self._staging.temp, label=self._owner)
        if not self._own_manifest:
            data = synthesise(stored.info, self._submodel)
            self._append(MANIFEST, Incoming(MANIFEST, len(data), BytesContent(data).open()), len(data))

    def write(self, path: str, size: int, reader: Reader, sha256: str | None = None) -> None:
        """Take one file; see `Sink.write`."""
        check_path(path, self._owner)
        if path in self._names:
            raise FormatError(f"{self._owner}: the file {show(path)} arrives twice", hint="publish the model again")
        if path.lower().endswith(KEY_SUFFIX):
            raise FormatError(
                f"{self._owner}: {show(path)} is a key file, which has no place in an archive",
                hint="publish the model without it",
            )
        if path == MANIFEST:
            reader = self._manifest(size, reader).open()
        name = self._place(path)
        self._append(name, Incoming(path, size, reader, sha256), size)
        self._names[path] = name

    def commit(self) -> str:
        """Write the directory, and rename; the identity of the new archive."""
        check_collisions(self._entries, self._owner)
        if MANIFEST not in self._entries:
            raise FormatError(f"{self._owner}: {MANIFEST} did not arrive", hint="publish the model again")
        names = sorted(self._entries, key=_member_order)
        self._zip.finish([self._entries[name] for name in names])
        self._zip.close()
        self._staging.publish_file()
        lines = "".join(f"{name}={self._hashes[name]}\n" for name in names)
        return "mlarchive:" + hashlib.sha256(lines.encode()).hexdigest()

    def abort(self) -> None:
        """Remove the temporary file."""
        self._zip.close()
        self._staging.discard()

    def _append(self, name: str, incoming: Incoming, size: int) -> None:
        self._entries[name] = self._zip.append(name, size, incoming.pieces(), self._method)
        self._hashes[name] = incoming.sha256

    def _place(self, path: str) -> str:
        if self._own_manifest or (path.split("/")[0] in _FOLDERS and "/" in path):
            return path
        return f"models/{self._submodel}/{path}"

    def _manifest(self, size: int, reader: Reader) -> BytesContent:
        """A manifest.json that the model brings along; it was announced, or a name of the model's own."""
        if not self._own_manifest:
            raise FormatError(
                f"{self._owner}: the artifact has a {MANIFEST} that it did not announce", hint="pull it as a folder"
            )
        if size > self._limit:
            raise LimitError(f"{self._owner}: {MANIFEST} has {size} bytes, more than the {self._limit} accepted")
        data = b"".join(bytes(chunk) for chunk in chunks(reader))
        check_size(MANIFEST, len(data), size)
        parse_manifest(data, self._owner, self._limit)
        return BytesContent(data)


def _member_order(name: str) -> tuple[int, bytes]:
    top = name.split("/")[0]
    return (0 if name == MANIFEST else 1 + _FOLDERS.index(top) if top in _FOLDERS else 4), name.encode()
