# SPDX-License-Identifier: Apache-2.0
"""A sink that writes nothing: what `verify` streams an artifact into."""

from __future__ import annotations

import threading

from ..errors import IntegrityError
from ..io.incoming import IncomingFile
from ..io.readers import Reader
from ..model import StoredModel
from ..paths import show
from .base import Sink


class CheckSink(Sink):
    """Takes every file, keeps its hash, and compares it with what the manifest lists. Formats add what they know.

    Attributes:
        hashes: Hex sha256 by path.
        listed: Number of files whose sha256 the manifest lists.
    """

    parallel = True

    def __init__(self, stored: StoredModel) -> None:
        self._expected = {file.path: file.sha256 for file in stored.files}
        self._lock = threading.Lock()
        self.hashes: dict[str, str] = {}
        self.listed = 0

    def write(self, path: str, size: int, reader: Reader, sha256: str | None = None) -> None:
        """Read one file to its end and hash it, unless `reader` enforces its hash."""
        found = IncomingFile(path, size, reader, sha256).read_to_end()
        expected = self._expected.get(path)
        if expected not in (None, found):
            raise IntegrityError(
                f"the file {show(path)} has the sha256 {found}, the manifest lists {expected}",
                hint="the artifact was built wrongly: publish it again",
            )
        with self._lock:
            self.hashes[path] = found
            self.listed += expected is not None

    def commit(self) -> str | None:
        """Nothing more to check here; no identity."""
        return None

    def abort(self) -> None:
        """Nothing was written."""
