# SPDX-License-Identifier: Apache-2.0
"""A sink that writes the only file of a model to standard output."""

from __future__ import annotations

import os
import sys

from ..errors import DestinationError, UsageError, writing
from ..io.readers import Reader, chunks
from .base import Sink


class StandardOutputSink(Sink):
    """Writes bytes as they arrive: whoever reads them learns from the exit status whether they were right.

    Raises:
        UsageError: standard output is a terminal.
        DestinationError: it is closed.
    """

    def __init__(self) -> None:
        if sys.stdout is None:
            raise DestinationError("standard output is closed", hint="name a file")
        if sys.stdout.isatty():
            raise UsageError("standard output is a terminal", hint="redirect it (> FILE), or name a file")
        sys.stdout.flush()
        self._handle = sys.stdout.fileno()

    def write(self, path: str, size: int, reader: Reader, sha256: str | None = None) -> None:
        """Pass on the bytes; see `Sink.write`."""
        for piece in chunks(reader):
            rest = memoryview(piece)
            with writing("to standard output"):
                while rest:
                    rest = rest[os.write(self._handle, rest) :]

    def commit(self) -> None:
        """There is no identity: the bytes were checked while they were read."""

    def abort(self) -> None:
        """Do nothing: bytes that were written cannot be taken back."""
