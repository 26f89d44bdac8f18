# SPDX-License-Identifier: Apache-2.0
"""A `.carton` file that is stored whole, as one file of the model, so that a pull gives back its very bytes."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import replace
from pathlib import Path

from ...errors import FormatError, IntegrityError, UsageError, writing
from ...io.content import FileContent
from ...io.incoming import IncomingFile
from ...io.positioned import append_file
from ...io.readers import Reader, chunks
from ...model import FileEntry, Model, ModelFile, Role
from ...paths import show
from ..base import StoredModel
from ..check import CheckSink
from ..onefile import OneFileSink
from .names import EXACT
from .options import CartonReadOptions, CartonWriteOptions
from .reader import read_carton
from .writer import CartonFolderSink

NAME = "model.carton"
_DAMAGED = "the artifact is damaged or incomplete; publish the carton again"


def read_exact(path: Path, options: CartonReadOptions) -> Model:
    """The carton at `path` as one file, once every file inside it has the sha256 that MANIFEST gives for it.

    Raises:
        UsageError: it is a folder.
        FormatError: it breaks the rules of the format, or has files that are only linked.
        IntegrityError: a file in it is not what MANIFEST says.
    """
    if path.is_dir():
        raise UsageError(
            f"{path} is a folder; only an archive can be stored exactly",
            hint="leave out --exact: a folder comes back file by file",
        )
    if options.fetch_links:
        raise UsageError(
            "--exact stores the archive alone, without the files that it links to",
            hint="leave out one of --exact and --fetch-links",
        )
    model = read_carton(path, options)
    check_files(model, str(path))
    whole = ModelFile(NAME, Role.WEIGHT, FileContent(path))
    return replace(model, files=(whole,), origin={**model.origin, EXACT: NAME})


def check_files(model: Model, owner: str) -> None:
    """Read every file of a carton that MANIFEST lists.

    Raises:
        IntegrityError: one is not what MANIFEST says.
    """
    for file in model.files:
        digest = hashlib.sha256()
        with file.content.open() as reader:
            for chunk in chunks(reader):
                digest.update(chunk)
        if file.sha256 not in (None, digest.hexdigest()):
            raise IntegrityError(
                f"{owner}: the file {show(file.path)} has not the sha256 that MANIFEST gives for it",
                hint="fetch or pack it again",
            )


class ExactSink(OneFileSink):
    """Writes a carton that was stored whole: the same file again, or unpacked into a folder.

    Unpacking needs space for the archive and the folder; the archive lies next to `dest` until then.

    Args:
        dest: The `.carton` file or the folder.
        stored: What will arrive: one file.
        options: See `WriteOptions`; `packed` decides between file and folder.

    Raises:
        UsageError: another zip method is asked for.
        FormatError: `stored` is not one whole carton.
        DestinationError: `dest` exists, or cannot be written.
    """

    def __init__(self, dest: Path, stored: StoredModel, options: CartonWriteOptions) -> None:
        if options.zip_method != "stored":
            raise UsageError(
                "the artifact contains the original archive, whose members keep their compression",
                hint="leave out --zip-method",
            )
        self._stored = _only_file(stored, str(dest))
        self._options = options
        super().__init__(dest, stored, options, unpacks=options.packed is False)

    def check(self) -> str | None:
        """Check every file inside."""
        return self._proven().identity

    def commit(self) -> str | None:
        """Check every file inside, and give the file or the folder its final name."""
        if self._options.packed is not False:
            return super().commit()
        model = self._proven()
        with CartonFolderSink(self._staging.dest, _stored_of(model), replace(self._options, key=None)) as folder:
            for file in model.files:
                with file.content.open() as reader:
                    folder.write(file.path, file.size, reader)
            identity = folder.commit()
            self.changes = folder.changes
        self._staging.discard()
        return identity

    def _proven(self) -> Model:
        return _proven(self._stored, self._staging.temp, self._owner, self._options)


class ExactCheckSink(CheckSink):
    """Checks a carton that was stored whole. An archive is read from its end, so it lies in a temporary file."""

    parallel = False

    def __init__(self, stored: StoredModel) -> None:
        super().__init__(stored)
        self._stored = _only_file(stored, "the carton")
        self._folder = tempfile.TemporaryDirectory(prefix="ocibridge-verify-")
        self._temp = Path(self._folder.name) / NAME

    def write(self, path: str, size: int, reader: Reader, sha256: str | None = None) -> None:
        """Take the archive."""
        if path != self._stored.origin[EXACT]:
            raise IntegrityError(f"the file {show(path)} arrived, which the artifact did not announce", hint=_DAMAGED)
        with writing(self._temp):
            append_file(self._temp, IncomingFile(path, size, reader, ""))
        with FileContent(self._temp).open() as copy:
            super().write(path, size, copy, sha256)

    def commit(self) -> str | None:
        """The identity, once every file inside is held against MANIFEST."""
        with self._folder:
            return _proven(self._stored, self._temp, "the carton", CartonWriteOptions()).identity

    def abort(self) -> None:
        """Remove the temporary file."""
        self._folder.cleanup()


def _only_file(stored: StoredModel, owner: str) -> StoredModel:
    if [file.path for file in stored.files] != [stored.origin[EXACT]]:
        raise FormatError(
            f"cannot read {owner}: the artifact says that it contains one whole carton, but has other files",
            hint=_DAMAGED,
        )
    return stored


def _proven(stored: StoredModel, temp: Path, owner: str, options: CartonWriteOptions) -> Model:
    if not temp.exists():
        raise IntegrityError(f"{owner}: the file {stored.origin[EXACT]} did not arrive", hint=_DAMAGED)
    model = read_carton(temp, CartonReadOptions(limits=options.limits))
    check_files(model, owner)
    if stored.identity not in (None, model.identity):
        raise IntegrityError(
            f"{owner} would be {model.identity}, but was published as {stored.identity}", hint=_DAMAGED
        )
    return model


def _stored_of(model: Model) -> StoredModel:
    files = tuple(FileEntry(file.path, file.role, file.size, file.sha256, file.symlink) for file in model.files)
    return StoredModel(model.format, files, True, model.identity)
