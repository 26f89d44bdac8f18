# SPDX-License-Identifier: Apache-2.0
"""Digests of layers that were read before, so that an unchanged model is not read again."""

from __future__ import annotations

import hashlib
import json
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from ..io.content import Stamp, Stamped
from ..io.database import Database
from ..layers import Encoding, Layer, LayerDigests
from ..layers.encoding import GZIP_LEVEL, ZSTD_LEVEL
from ..settings import MiB

FILE = "digests.sqlite"
"""Name of the file in the cache folder."""
MOST = 64 * MiB
"""Bytes of the file from which on the half that was used longest ago is dropped."""
SETTLED = 2_000_000_000
"""Nanoseconds after which a change of a file must show in its times, whatever the clock of its file system."""
_VERSION = 1
_DAY = 24 * 60 * 60
_TABLE = "CREATE TABLE IF NOT EXISTS digests (key TEXT PRIMARY KEY, digests TEXT, used INTEGER) WITHOUT ROWID"


class LayerKey(NamedTuple):
    """Identity of a layer's content, known without reading it.

    Attributes:
        text: Other for other bytes.
        settled: Whether every later change of a file will show.
        stamps: The stamps of the files, in the order of `Layer.files`.
    """

    text: str
    settled: bool
    stamps: Sequence[Stamp]


def layer_key(layer: Layer) -> LayerKey | None:
    """The key of a layer when its files were found; None where a file has no stamp.

    It covers the encoding with all that its bytes depend on, and for each file its path and its stamp: device, inode,
    size, times of the last changes, and place in its archive.
    """
    now = time.time_ns()
    stamps = _stamps(layer, lambda content: content.found_stamp())
    if stamps is None:
        return None
    files = [(file.path, stamp.identity) for file, stamp in zip(layer.files, stamps, strict=True)]
    changed = max((stamp.changed for stamp in stamps), default=0)
    text = json.dumps([_VERSION, layer.encoding.value, _codec(layer.encoding), files])
    return LayerKey(hashlib.sha256(text.encode()).hexdigest(), changed + SETTLED < now, stamps)


def _stamps(layer: Layer, stamp_of: Callable[[Stamped], Stamp | None]) -> list[Stamp] | None:
    """The stamps of all files, as `stamp_of` gives them; None where one has none."""
    stamps = []
    for file in layer.files:
        content = file.content
        stamp = stamp_of(content) if isinstance(content, Stamped) else None
        if stamp is None:
            return None
        stamps.append(stamp)
    return stamps


def _codec(encoding: Encoding) -> list[str | int]:
    if encoding is Encoding.TAR_GZIP:
        return [GZIP_LEVEL, zlib.ZLIB_RUNTIME_VERSION]
    if encoding is Encoding.TAR_ZSTD:
        import zstandard

        return [ZSTD_LEVEL, zstandard.__version__, ".".join(map(str, zstandard.ZSTD_VERSION))]
    return []


class DigestCache:
    """Digests by `LayerKey`, shared by all processes of a user. What goes wrong with it is a miss, never an error.

    Args:
        folder: The cache folder; None keeps nothing.
    """

    def __init__(self, folder: Path | None) -> None:
        self._database = Database(folder and folder / FILE, _TABLE)

    def get(self, layer: Layer, key: LayerKey | None) -> LayerDigests | None:
        """Return the cached digests of a layer, unless they contradict its sizes or the digests of its format."""
        if key is None:
            return None
        rows = self._database.rows("SELECT digests, used FROM digests WHERE key = ?", key.text)
        found = _parse(key.text, rows[0][0]) if rows else None
        if found is None or not _plausible(layer, found):
            return None
        now = int(time.time())
        if abs(now - int(rows[0][1])) > _DAY:
            self._database.change("UPDATE digests SET used = ? WHERE key = ?", now, key.text)
        return found

    def put(self, layer: Layer, key: LayerKey | None, digests: LayerDigests) -> None:
        """Keep what reading a layer has found.

        Nothing is kept where a file changed since `key` was made, or so shortly before that a later change might not
        show.

        Args:
            layer: The layer.
            key: Its key from before it was read.
            digests: What was found.
        """
        if key is None or not key.settled or _stamps(layer, lambda content: content.read_stamp()) != key.stamps:
            return
        self._database.change(
            "REPLACE INTO digests VALUES (?, ?, ?)", key.text, _to_text(key.text, digests), int(time.time())
        )
        pages = self._database.rows(
            "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, "
            "pragma_page_size"
        )
        if pages and pages[0][0] > MOST:
            self._database.change(
                "DELETE FROM digests WHERE key IN "
                "(SELECT key FROM digests ORDER BY used LIMIT (SELECT count(*) / 2 + 1 FROM digests))"
            )

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def __enter__(self) -> DigestCache:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _to_text(key: str, digests: LayerDigests) -> str:
    text = json.dumps([digests.digest, digests.size, digests.diff_id, "".join(digests.files)])
    return _checksum(key, text) + text


def _parse(key: str, value: object) -> LayerDigests | None:
    text = str(value)[64:]
    if value != _checksum(key, text) + text:
        return None
    digest, size, diff_id, files = json.loads(text)
    return LayerDigests(digest, size, diff_id, tuple(files[at : at + 64] for at in range(0, len(files), 64)))


def _checksum(key: str, text: str) -> str:
    return hashlib.sha256(f"{key} {text}".encode()).hexdigest()


def _plausible(layer: Layer, found: LayerDigests) -> bool:
    if len(found.files) != len(layer.files):
        return False
    if any(file.sha256 not in (None, sha256) for file, sha256 in zip(layer.files, found.files, strict=True)):
        return False
    return layer.encoding.compressed or found.size == layer.plain.size
