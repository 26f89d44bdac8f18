# SPDX-License-Identifier: Apache-2.0
"""A carton in a store, checked against its own MANIFEST and written nowhere."""

from __future__ import annotations

from ...io.readers import Reader
from ...model import StoredModel
from ...settings import DEFAULT_LIMITS
from ..check import CheckSink
from .names import MANIFEST
from .writer import ManifestCheck


class CartonCheckSink(CheckSink):
    """A `CheckSink` that proves the identity of a carton."""

    def __init__(self, stored: StoredModel) -> None:
        super().__init__(stored)
        self._manifest_check = ManifestCheck("the carton", stored, DEFAULT_LIMITS)

    def write(self, path: str, size: int, reader: Reader, sha256: str | None = None) -> None:
        """Read one file to its end; see `CheckSink.write`."""
        if path == MANIFEST:
            reader, sha256 = self._manifest_check.read_manifest(reader, size).open(), None
        super().write(path, size, reader, sha256)

    def commit(self) -> str:
        """The identity, once every row of MANIFEST is held against the bytes that came."""
        return self._manifest_check.check(self.hashes)
