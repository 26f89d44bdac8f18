# SPDX-License-Identifier: Apache-2.0
"""Sinks, which write a model in a format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType

from ..errors import can_resume
from ..io.content import Content
from ..io.journal import Journal
from ..io.merge import Changes
from ..io.readers import Reader
from ..model import StoredModel
from .options import ReadOptions, WriteOptions

__all__ = ["ReadOptions", "Sink", "StoredModel", "WriteOptions"]


class Sink(ABC):
    """Receives the files of a model under a temporary name, and gives them their final name in `commit`.

    As a context manager it aborts unless `commit` was reached: nothing stays that looks finished. After an error that
    another try may get over, such as a broken connection, it pauses, if it can.

    Attributes:
        parallel: Whether `write` may be called from several threads at once.
        losses: What of the model the target cannot express, one sentence each; known before the first `write`.
        journal: Records what has arrived, for a process that resumes the work; None if the target
            begins anew each time.
        changes: After `commit`, how many files of the target are new; None for one file.
        note: After `commit`, one word on how the target compares with the source, such as `exact` or `equivalent`.
    """

    parallel: bool = False
    losses: tuple[str, ...] = ()
    journal: Journal | None = None
    changes: Changes | None = None
    note: str | None = None

    @abstractmethod
    def write(self, path: str, size: int, reader: Reader, sha256: str | None = None) -> None:
        """Take one file.

        Args:
            path: Its path, already through `ocibridge.paths.check_path`.
            size: Its length in bytes; `reader` gives exactly that many.
            reader: Its bytes, to be read to the end.
            sha256: Hex sha256 that `reader` itself enforces, so that the sink need not hash again.

        Raises:
            IntegrityError: the bytes are not those that the format's own metadata promises.
            DestinationError: the target cannot be written.
        """

    def has(self, path: str, size: int, sha256: str) -> bool:
        """Return whether the target holds these bytes already, verified, and takes them as the file `path`.

        Asked for the files of a layer that lists them with their digests; where it is true of all, nothing moves and
        `write` is not called, else `discard` is called for those that it was true of.
        """
        return False

    def resume_file(self, path: str, size: int, whole: bool) -> Content | None:
        """Take over what an earlier process has written of a file.

        Args:
            path: The file.
            size: Its length in bytes.
            whole: Whether the journal says that all of it is there.

        Returns:
            The bytes that are there, which `write` is then given again at the start of the file, to be checked and not
            written; None where there are none.
        """
        return None

    def discard(self, paths: Sequence[str]) -> None:
        """Forget these files: what was kept of them was wrong, and they arrive again from their start."""

    @abstractmethod
    def commit(self) -> str | None:
        """Check the whole against the format's own metadata, give it its final name, and return its identity."""

    def pause(self) -> None:
        """Give up for now, and leave for another process what is worth it."""
        self.abort()

    @abstractmethod
    def abort(self) -> None:
        """Remove what was written; harmless after `commit`."""

    def __enter__(self) -> Sink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if exc is not None and can_resume(exc):
            self.pause()
        else:
            self.abort()
