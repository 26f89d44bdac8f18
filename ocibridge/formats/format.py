# SPDX-License-Identifier: Apache-2.0
"""Base class of formats: a format recognises, reads and writes one kind of archive, and declares its properties.

The command line, the choice of a format by a name, and the documentation follow from the declaration. Every command
imports the declarations, so a format imports what it reads and writes with when it does so.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from ..errors import FormatError, UsageError
from .options import ReadOptions, WriteOptions

if TYPE_CHECKING:
    from ..io.content import Content
    from ..model import Model, StoredModel
    from ..oci import Descriptor, RegistryReference
    from ..settings import Limits
    from .base import Sink
    from .check import CheckSink

R = TypeVar("R", bound=ReadOptions)
W = TypeVar("W", bound=WriteOptions)


class Format(ABC, Generic[R, W]):
    """One kind of archive, folder or store of models.

    Attributes:
        name: Its name: what `--as` takes, and what artifacts record.
        label: Its models in messages, such as `cartons`.
        suffixes: What the names of its files end with, in lower case; a target that is named so is written in it.
        scheme: What the names of its models start with where they have no path: `ollama` for `ollama:NAME`.
        usage: How such a name is written, for help texts.
        exact: True if an archive can be stored whole (`--exact`).
        raw_files: Whether its files are blobs with digests of their own, so that an artifact has a raw layer for each
            unless the user wants tar.
        companion: Media type of the manifest that may be published with an artifact (`--also NAME`), if there is one.
        archive_folder: Folder, with the slash, of files in a model that only an archive is restored from; a folder on
            disk has none of them.
        read_options: Its options for reading; each field that is made by `ocibridge.options.option` is a flag.
        write_options: Its options for writing.
        archive_options: Names of those that only an archive has, and no folder.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = ()
    scheme: ClassVar[str | None] = None
    usage: ClassVar[str | None] = None
    exact: ClassVar[bool] = False
    raw_files: ClassVar[bool] = False
    companion: ClassVar[str | None] = None
    archive_options: ClassVar[frozenset[str]] = frozenset()
    archive_folder: ClassVar[str | None] = None
    read_options: type[R]
    write_options: type[W]

    @abstractmethod
    def matches(self, path: Path) -> bool:
        """Return whether what is at `path` looks like this format (cheap; reads at most a few KiB)."""

    @abstractmethod
    def read(self, path: Path, options: R) -> Model:
        """Read `path`.

        Raises:
            SourceError: it cannot be read.
            FormatError: it breaks the rules of the format.
        """

    @abstractmethod
    def sink(self, dest: Path, stored: StoredModel, options: W) -> Sink:
        """A sink that writes `stored` to `dest`; `options.packed` decides over what `suits` says of the name.

        Raises:
            FormatError: the stored model cannot be written in this format.
            DestinationError: `dest` exists, or cannot be written.
        """

    def suits(self, dest: Path) -> bool:
        """Return whether a target of this name is meant to be of this format."""
        return dest.suffix.lower() in self.suffixes

    def checker(self, stored: StoredModel) -> CheckSink:
        """A sink that writes nothing and checks `stored` against all that the format's own metadata promises."""
        from .check import CheckSink

        return CheckSink(stored)

    def address(self, text: str) -> Address[R, W]:
        """Parse a name that begins with `scheme`.

        Raises:
            InvalidReference: it breaks the rules of the format.
        """
        raise UsageError(f"{text} is a path", hint=f"{self.label} have no names")

    def companion_manifest(self, model: Model) -> bytes:
        """The companion manifest of an artifact of `model`: of media type `companion`.

        Raises:
            FormatError: the model has none.
        """
        raise FormatError(f"{self.label} have no manifest of their own", hint=f"leave out --also {self.name}")

    def thin_sink(self, dest: Path, stored: StoredModel, options: W, blobs: Blobs) -> tuple[Sink, Mapping[str, str]]:
        """A sink for an archive without its large files, which only links to them (`--thin`).

        Args:
            dest: The file.
            stored: The model.
            options: See `sink`.
            blobs: Its files, each of which is a blob that anybody may fetch.

        Returns:
            The sink, and hex sha256 by path of the files that it only links to.

        Raises:
            UsageError: this format has no links.
        """
        raise UsageError(f"{self.label} cannot be thin", hint="leave out --thin")

    def prove(self, stored: StoredModel, blobs: Blobs, limits: Limits) -> Proof:
        """The identity of `stored` from the digests of its files alone (`--manifest-only`).

        Raises:
            UsageError: the identity of this format does not follow from them.
            IntegrityError: a file is not the one that the format's own metadata names.
        """
        raise UsageError(f"the manifest alone proves nothing of {self.label}", hint="leave out --manifest-only")


AnyFormat = Format[Any, Any]


class Address(ABC, Generic[R, W]):
    """A model that has a name and no path.

    Attributes:
        format: Its format.
        repository: Where its manifest and blobs are, if that is a registry.
        media_types: Of a manifest that a registry is asked for.
    """

    format: Format[R, W]
    repository: RegistryReference | None = None
    media_types: tuple[str, ...] = ()

    @abstractmethod
    def __str__(self) -> str:
        """The name, with its scheme."""

    @abstractmethod
    def read(self, options: R) -> Model:
        """Read the model from the store that the format itself knows.

        Raises:
            SourceError: it is not there.
            FormatError: it breaks the rules of the format.
        """

    @abstractmethod
    def read_manifest(self, manifest: bytes, blobs: Callable[[Descriptor], Content], options: R) -> Model:
        """Read the model from the `repository`.

        Args:
            manifest: Its manifest there.
            blobs: Gives the content of a blob.
            options: See `read`.
        """

    @abstractmethod
    def sink(self, stored: StoredModel, options: W) -> Sink:
        """A sink that writes `stored` under this name; see `Format.sink`.

        Raises:
            UsageError: the name is in a registry.
        """


class Blobs(NamedTuple):
    """The files of a stored model, each of which is a blob in a store.

    Attributes:
        owner: What the model is called, for messages.
        host: The registry.
        read: Reads a small file, by its path; verified.
        start: What the URLs of the blobs start with.
    """

    owner: str
    host: str
    read: Callable[[str], bytes]
    start: str

    def url(self, sha256: str) -> str:
        """The URL of the blob with this hex sha256."""
        return f"{self.start}/sha256:{sha256}"


class Proof(NamedTuple):
    """Facts proven by a manifest alone.

    Attributes:
        identity: The identity.
        files: Number of files that it covers.
        size: Bytes that had to be read.
        proven: What is proven, one sentence each.
        warnings: What is not, one sentence each.
    """

    identity: str
    files: int
    size: int
    proven: tuple[str, ...]
    warnings: tuple[str, ...] = ()
