# SPDX-License-Identifier: Apache-2.0
"""A small SQLite file of notes that save work; losing it, or never having it, is no failure."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite3

LOCK_TIMEOUT = 0.5
"""Seconds to wait for another process that writes; after that, this process continues without the file."""


class Database:
    """A table in a file that several processes and threads use at once.

    The file is made when it is first used, for its owner alone. A file that is damaged is removed, so that the next
    process has a new one; whatever else goes wrong, every query finds nothing from then on.

    Args:
        path: The file; None knows nothing and keeps nothing.
        schema: One `CREATE TABLE IF NOT EXISTS`.
    """

    def __init__(self, path: Path | None, schema: str) -> None:
        self._path = path
        self._schema = schema
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a `SELECT`."""
        return self._execute(query, values)[0]

    def change(self, statement: str, *values: object) -> int:
        """Execute a statement, and return the number of changed rows."""
        return self._execute(statement, values)[1]

    def _execute(self, statement: str, values: tuple[object, ...]) -> tuple[list[tuple[Any, ...]], int]:
        with self._lock:
            if self._path is None:
                return [], 0
            try:
                import sqlite3  # slow to import, and absent from some builds of Python
            except ImportError:
                self._path = None
                return [], 0
            try:
                cursor = self._open(sqlite3, self._path).execute(statement, values)
                return cursor.fetchall(), max(0, cursor.rowcount)
            except (OSError, sqlite3.Error) as exc:
                # Those that are about the bytes of the file have no class of their own.
                if type(exc) is sqlite3.DatabaseError:
                    for name in (self._path, self._path.with_name(f"{self._path.name}-journal")):
                        with suppress(OSError):
                            name.unlink()
                self._path = None
                self._disconnect()
                return [], 0

    def _open(self, sqlite: Any, path: Path) -> sqlite3.Connection:
        if self._connection is None:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            self._connection = sqlite.connect(path, timeout=LOCK_TIMEOUT, isolation_level=None, check_same_thread=False)
            # A killed process leaves a journal that the next one rolls back. What a power cut damages is noticed.
            self._connection.execute("PRAGMA journal_mode = TRUNCATE").fetchall()
            self._connection.execute("PRAGMA synchronous = OFF")
            self._connection.execute(self._schema)
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Close the file; it is opened again when it is used again."""
        with self._lock:
            self._disconnect()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
