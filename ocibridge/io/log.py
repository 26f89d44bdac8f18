# SPDX-License-Identifier: Apache-2.0
"""A log of JSON objects, one a line, which is appended to and outlives a killed process."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from ..errors import writing
from .locks import try_lock

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


class JsonLog:
    """An open log, for its owner alone; not for several threads at once.

    Args:
        path: The file, which is made if it is not there.

    Raises:
        DestinationError: it cannot be read or written; from every method.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pending = bytearray()
        with writing(path):
            self._file = os.fdopen(os.open(path, _FLAGS, 0o600), "r+b", buffering=0)

    def try_lock(self) -> bool:
        """Keep other processes out; False where one has the file."""
        return try_lock(self._file.fileno())

    def read(self, most: int | None = None) -> Iterator[bytes]:
        """Yield the lines. A torn last one is cut off, so that the next one is not joined to it.

        Args:
            most: Bytes from which a log is not read; None reads any.
        """
        with writing(self._path):
            if most is not None and os.fstat(self._file.fileno()).st_size > most:
                return
            self._file.seek(0)
            end = 0
            with os.fdopen(os.dup(self._file.fileno()), "rb") as file:
                for line in file:
                    if line.endswith(b"\n"):
                        end += len(line)
                        yield line
            self._file.truncate(end)

    def append(self, fields: Mapping[str, object]) -> None:
        """Add a line; `flush` writes it."""
        self._pending += json.dumps(fields, separators=(",", ":")).encode() + b"\n"

    def flush(self) -> None:
        """Hand everything to the system, so that it outlives this process."""
        with writing(self._path):
            while self._pending and not self._file.closed:
                # What a full disk did not take stays pending, so that no line is ever torn but the last.
                del self._pending[: self._file.write(self._pending)]

    def clear(self) -> None:
        """Remove all lines."""
        self._pending.clear()
        with writing(self._path):
            self._file.truncate(0)

    def close(self) -> None:
        """Close the file; what is pending is lost, so flush before."""
        self._file.close()
