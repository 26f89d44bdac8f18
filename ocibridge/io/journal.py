# SPDX-License-Identifier: Apache-2.0
"""Notes of what has arrived, with which another process can resume.

Nothing in it is trusted: it says which bytes are worth reading again before the rest is fetched, and all of them are
verified together.
"""

from __future__ import annotations

import base64
import json
import threading
from pathlib import Path
from typing import Any, NamedTuple

from ..settings import MiB
from .log import JsonLog

MARK = MiB
"""Bytes between two notes: more than this of one layer is never fetched again."""
_LARGEST = 512 * MiB
_ROWS = 500
"""Files in one line."""
_VERSION = 2


class JournalEntry(NamedTuple):
    """One file of a layer, or the end of the layer.

    Attributes:
        gap: Bytes of the blob before the file, since the file before: tar headers and padding. None where they are
            those that ocibridge itself writes (`ocibridge.layers.tar.tar_gap`), so that they take no space here.
        path: The file; None at the end of the layer.
        size: Its size in bytes.
        sha256: Its hex sha256, where only that tells later whether the file is whole.
    """

    gap: bytes | None
    path: str | None = None
    size: int = 0
    sha256: str | None = None


class Journal:
    """The notes about one target.

    Args:
        path: The file; one that is no journal, or of another `key`, is begun anew.
        key: Names what arrives: what was kept of something else is of no use.

    Attributes:
        resumed: Whether there were notes of this key.

    Raises:
        DestinationError: it cannot be written; from every method.
    """

    def __init__(self, path: Path, key: str) -> None:
        self._path = path
        self._key = key
        self._lock = threading.Lock()
        self._rows: list[JournalEntry] = []
        self._rows_of = ""
        self._unsaid = 0
        self._marks: dict[str, int] = {}
        self._layers: dict[str, list[JournalEntry]] = {}
        self._log = JsonLog(path)
        try:
            self.resumed = self._load(list(self._log.read(_LARGEST)))
            if not self.resumed:
                self.reset()
        except BaseException:
            self.close()
            raise

    def reset(self) -> None:
        """Forget everything."""
        with self._lock:
            self._marks.clear()
            self._layers.clear()
            self._rows.clear()
            self._log.clear()
            self._append({"version": _VERSION, "key": self._key})

    def mark(self, path: str, done: int) -> None:
        """The first `done` bytes of the file `path` are written."""
        with self._lock:
            self._marks[path] = done
            self._append({"file": path, "done": done})

    def marked(self, path: str) -> int:
        """Return the number of bytes of a file that are written."""
        return self._marks.get(path, 0)

    def add(self, layer: str, entry: JournalEntry) -> None:
        """A file of the layer (its digest) begins, and the one before it is whole; or the layer is."""
        with self._lock:
            if layer != self._rows_of:
                self._close_row()
                self._rows_of = layer
            self._layers.setdefault(layer, []).append(entry)
            self._rows.append(entry)
            # The file before this one is whole, however few notes there are about it.
            if entry.path is None or self._unsaid >= MARK or len(self._rows) >= _ROWS:
                self._flush()
            self._unsaid += entry.size + len(entry.gap or b"")

    def entries(self, layer: str) -> list[JournalEntry]:
        """The entries of a layer, in the order of its bytes."""
        return list(self._layers.get(layer, ()))

    def forget(self, layer: str) -> None:
        """A layer arrives anew, from its start."""
        with self._lock:
            self._forget(layer)
            self._append({"forget": layer})

    def cut(self, layer: str, count: int) -> None:
        """Of a layer, only the first `count` entries still hold."""
        with self._lock:
            del self._layers[layer][count:]
            self._append({"cut": layer, "count": count})

    def spool(self, layer: str) -> Path:
        """The path for the bytes of a compressed layer until its files are complete."""
        return self._path.with_name(layer.replace(":", "-"))

    def flush(self) -> None:
        """Hand everything to the system, so that it outlives this process."""
        with self._lock:
            self._flush()

    def close(self) -> None:
        """Close the file; what is pending is lost, so flush before."""
        self._log.close()

    def _forget(self, layer: str) -> None:
        for entry in self._layers.pop(layer, ()):
            if entry.path is not None:
                self._marks.pop(entry.path, None)

    def _append(self, fields: dict[str, object]) -> None:
        self._close_row()
        self._log.append(fields)
        self._flush()

    def _close_row(self) -> None:
        """Write one line about the files that have come since the last one."""
        if self._rows:
            self._log.append({"layer": self._rows_of, "files": [_row(entry) for entry in self._rows]})
            self._rows.clear()

    def _flush(self) -> None:
        self._close_row()
        self._log.flush()
        self._unsaid = 0

    def _load(self, lines: list[bytes]) -> bool:
        try:
            if not lines or json.loads(lines[0]) != {"version": _VERSION, "key": self._key}:
                return False
            for line in lines[1:]:
                self._apply(json.loads(line))
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            return False
        return True

    def _apply(self, fields: dict[str, Any]) -> None:
        if "file" in fields:
            self._marks[str(fields["file"])] = _count(fields["done"])
        elif "forget" in fields:
            self._forget(str(fields["forget"]))
        elif "cut" in fields:
            del self._layers[str(fields["cut"])][int(fields["count"]) :]
        else:
            found = [_entry(*row) for row in fields["files"]]
            self._layers.setdefault(str(fields["layer"]), []).extend(found)


def _row(entry: JournalEntry) -> list[object]:
    """An entry as it is noted: path, size, and the other two where there is something to say."""
    row: list[object] = [entry.path, entry.size]
    if entry.gap is not None or entry.sha256:
        row.append(None if entry.gap is None else base64.b64encode(entry.gap).decode())
    if entry.sha256:
        row.append(entry.sha256)
    return row


def _entry(path: Any, size: Any, gap: Any = None, sha256: Any = None) -> JournalEntry:
    return JournalEntry(
        None if gap is None else base64.b64decode(gap, validate=True),
        None if path is None else str(path).encode().decode(),  # no halves of characters
        _count(size),
        None if sha256 is None else str(sha256),
    )


def _count(value: Any) -> int:
    """A number of bytes.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(value, int) or value < 0:
        raise ValueError(value)
    return value
