# SPDX-License-Identifier: Apache-2.0
"""Cartons, version 1 of the format (seed 000): `.carton` archives and unpacked folders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import FormatError, LimitError, UsageError, reading
from ..format import Blobs, Format, Proof
from .names import CARTON_TOML, EXACT, MANIFEST
from .options import CartonReadOptions, CartonWriteOptions

if TYPE_CHECKING:
    from ...model import Model, StoredModel
    from ...settings import Limits
    from ..base import Sink
    from ..check import CheckSink

__all__ = ["CartonFormat", "CartonReadOptions", "CartonWriteOptions"]


class CartonFormat(Format[CartonReadOptions, CartonWriteOptions]):
    """The carton format.

    ```python
    model = CartonFormat().read(Path("digits.carton"), CartonReadOptions())
    ```
    """

    name = "carton"
    label = "cartons"
    suffixes = (".carton",)
    exact = True
    archive_options = frozenset({"zip_method"})
    read_options = CartonReadOptions
    write_options = CartonWriteOptions

    def matches(self, path: Path) -> bool:
        """Return whether `path` is a `.carton` file, an unpacked carton, or a zip archive with the files of one."""
        if path.is_dir():
            return (path / MANIFEST).is_file() and (path / CARTON_TOML).is_file()
        return path.is_file() and (self.suits(path) or _looks_like_carton(path))

    def read(self, path: Path, options: CartonReadOptions) -> Model:
        """Read the carton at `path`; see `read_carton`, or `read_exact` where the archive is to be kept."""
        from .exact import read_exact
        from .reader import read_carton

        return (read_exact if options.exact else read_carton)(path, options)

    def sink(self, dest: Path, stored: StoredModel, options: CartonWriteOptions) -> Sink:
        """A sink for a `.carton` file or an unpacked carton, as `options.packed` or else the name of `dest` says.

        A model that is no carton becomes one where the options name a runner; see `NewCartonSink`.

        Raises:
            UsageError: they name one for a carton.
        """
        from .create import NewCartonSink
        from .exact import ExactSink
        from .writer import CartonFolderSink, CartonZipSink

        packed = self.suits(dest) if options.packed is None else options.packed
        if EXACT in stored.origin:
            return ExactSink(dest, stored, replace(options, packed=packed))
        is_carton = stored.format == self.name or any(file.path == MANIFEST for file in stored.files)
        if options.runner_name is not None and is_carton:
            raise UsageError(
                "--runner-name is for a new carton, and the model is one that names its runner already",
                hint="leave out --runner-name and --framework-version",
            )
        if options.runner_name is not None:
            return NewCartonSink(dest, stored, replace(options, packed=packed))
        return (CartonZipSink if packed else CartonFolderSink)(dest, stored, options)

    def checker(self, stored: StoredModel) -> CheckSink:
        """See `CartonCheckSink` and `ExactCheckSink`."""
        from .checker import CartonCheckSink
        from .exact import ExactCheckSink

        return ExactCheckSink(stored) if EXACT in stored.origin else CartonCheckSink(stored)

    def thin_sink(
        self, dest: Path, stored: StoredModel, options: CartonWriteOptions, blobs: Blobs
    ) -> tuple[Sink, Mapping[str, str]]:
        """Make a sink for a carton that links to its large files instead of containing them (`--thin`).

        See `Format.thin_sink` for the parameters and the result.

        Raises:
            UsageError: the artifact stores the carton as one whole archive.
            FormatError: the model is not a carton.
            SourceError: the registry does not serve the blobs without a login.
        """
        from .thin import thin_sink

        return thin_sink(dest, stored, options, blobs)

    def prove(self, stored: StoredModel, blobs: Blobs, limits: Limits) -> Proof:
        """See `prove`."""
        from .proof import prove

        return prove(stored, blobs, limits)


def _looks_like_carton(path: Path) -> bool:
    with reading(path), open(path, "rb") as file:
        if file.read(4) != b"PK\x03\x04":
            return False
    from ..zip import read_directory

    try:
        names = {member.name for member in read_directory(path)}
    except (FormatError, LimitError):
        return False
    return {MANIFEST, CARTON_TOML} <= names
