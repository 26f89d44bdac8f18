# SPDX-License-Identifier: Apache-2.0
"""What every format can do: recognise a path, read it into a `Model`, and give a `Sink` that writes one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from ..errors import can_go_on
from ..io.content import Content, Reader
from ..io.journal import Journal
from ..model import Model, Role, StoredModel
from ..settings import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from .check import CheckSink

__all__ = ["Format", "ReadOptions", "Runner", "Sink", "StoredModel", "WriteOptions", "pick"]


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How a source is read.

    Attributes:
        fetch_links: Whether files that are only named by URL may be fetched.
        links_hosts: Hosts (`host` or `host:port`) they may be fetched from; empty allows any host.
        strip_from: Whether the `from` fields of an Ollama manifest, which may hold local paths, are left out.
        roles: Globs and the roles of the files that they match, before all other rules; the first match decides
            (for model folders, see `ocibridge.formats.folder`).
        keep_archive: Whether an archive travels as it is, for a restoration that is exact everywhere: a carton as the
            only file of the model, an MLSteam archive along with the others.
        limits: See `ocibridge.settings.Limits`.
    """

    fetch_links: bool = False
    links_hosts: tuple[str, ...] = ()
    roles: tuple[tuple[str, Role], ...] = ()
    strip_from: bool = False
    keep_archive: bool = False
    limits: Limits = DEFAULT_LIMITS


@dataclass(frozen=True, slots=True)
class Runner:
    """What a carton has to say of the program that runs it (seed 000, "carton.toml", `[runner]`).

    Attributes:
        name: `runner_name`, such as `torchscript`.
        framework_version: `required_framework_version`, a semver requirement such as `=1.12.1`.
        compat_version: `runner_compat_version`, the version of the layout of `model/` that the runner understands.
    """

    name: str
    framework_version: str
    compat_version: int = 1


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How a target is written.

    Attributes:
        packed: Whether an archive is written (true) or a folder (false); None decides by the name of the target.
        zip_method: `stored`, `deflate` or `zstd`, for formats that are zip archives.
        force: Whether an existing target may be replaced.
        runner: Of a carton that has to be made because the model was none.
        hooks: Folder whose Python files become the hooks of an MLSteam archive that has to be made.
        key: Names what will arrive, such as the digest of its manifest, so that what a killed process has left of it
            is taken up; None begins anew each time.
        limits: See `ocibridge.settings.Limits`.
    """

    packed: bool | None = None
    zip_method: str = "stored"
    force: bool = False
    runner: Runner | None = None
    hooks: Path | None = None
    key: str | None = None
    limits: Limits = DEFAULT_LIMITS


class Sink(ABC):
    """Receives the files of a model under a temporary name, and gives them their final name in `commit`.

    As a context manager it aborts unless `commit` was reached: nothing stays that looks finished. After an error that
    another try may get over, such as a broken line, it suspends, if it can.

    Attributes:
        parallel: Whether `write` may be called from several threads at once.
        losses: What of the model the target cannot express, one sentence each; known before the first `write`.
        journal: Where it is noted what has arrived, for a process that goes on after this one; None where the target
            begins anew each time.
        note: After `commit`, one word on how the target compares with the source, such as `exact` or `equivalent`.
    """

    parallel: bool = False
    losses: tuple[str, ...] = ()
    journal: Journal | None = None
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
        """Whether the target holds these bytes already, verified, and takes them as the file `path`.

        Asked for files that are layers of their own; where true, nothing moves and `write` is not called.
        """
        return False

    def keep(self, path: str, size: int, whole: bool) -> Content | None:
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

    def release(self, paths: Sequence[str]) -> None:
        """Forget these files: what was kept of them was wrong, and they arrive again from their start."""

    @abstractmethod
    def commit(self) -> str | None:
        """Check the whole against the format's own metadata, give it its final name, and return its identity."""

    def suspend(self) -> None:
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
        if exc is not None and can_go_on(exc):
            self.suspend()
        else:
            self.abort()


class Format(Protocol):
    """One kind of box."""

    name: str

    def matches(self, path: Path) -> bool:
        """Whether `path` looks like this format (cheap; reads at most a few KiB)."""
        ...

    def read(self, path: Path, options: ReadOptions) -> Model:
        """Read `path`.

        Raises:
            SourceError: it cannot be read.
            FormatError: it breaks the rules of the format.
        """
        ...

    def suits(self, dest: Path) -> bool:
        """Whether a target of this name is meant to be of this format."""
        ...

    def sink(self, dest: Path, stored: StoredModel, options: WriteOptions) -> Sink:
        """A sink that writes `stored` to `dest`; `options.packed` decides over what `suits` says of the name.

        Raises:
            FormatError: the stored model cannot be written in this format.
            DestinationError: `dest` exists, or cannot be written.
        """
        ...

    def checker(self, stored: StoredModel) -> CheckSink:
        """A sink that writes nothing and checks `stored` against all that the format's own metadata promises."""
        ...


def pick(formats: Sequence[Format], path: Path) -> Format | None:
    """The first format that recognises `path`."""
    return next((each for each in formats if each.matches(path)), None)
