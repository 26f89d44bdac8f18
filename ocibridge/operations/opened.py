# SPDX-License-Identifier: Apache-2.0
"""A model whose files can be read one by one, wherever it is: on disk, in the store of its format, or an artifact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..dialects import annotations as keys
from ..errors import NotFound, SourceError
from ..formats.registry import format_named
from ..layers import StoredLayer
from ..model import Model, ModelFile, StoredModel
from ..oci import Reference
from ..paths import show
from ..stores.files import layer_files
from ..stores.missing import closest, some_tags
from ..stores.opening import open_store
from .artifacts import Fetched
from .models import fetch_model
from .options import SourceOptions
from .sources import Source, open_source

if TYPE_CHECKING:
    from ..stores.base import Store
    from ..stores.registry import RegistryOptions


@dataclass(frozen=True, slots=True)
class OpenModel:
    """A model whose files can be read.

    Attributes:
        name: What it was called by whoever asked for it, for messages.
        subject: Its path, or its pinned reference.
        model: Its metadata.
        warnings: What is to be known of it, one sentence each.
        folder: Whether it is a folder on disk.
        fetched: Its manifest and config, if it is an artifact.
        store: Where it is, if it is an artifact.
    """

    name: str
    subject: str
    model: Model | StoredModel
    warnings: Sequence[str]
    folder: bool = False
    fetched: Fetched | None = None
    store: Store | None = None

    def files(self, *, folder: bool = False) -> Iterator[ModelFile]:
        """Every file. Headers of a layer are read only where its manifest does not list the files.

        Args:
            folder: Whether only those are wanted that a folder of the model on disk has.
        """
        form = format_named(self.model.format) if folder else None
        hidden = (form and form.archive_folder) or None
        for file in self._all():
            if hidden is None or not file.path.startswith(hidden):
                yield file

    def _all(self) -> Iterator[ModelFile]:
        if isinstance(self.model, Model):
            yield from self.model.files
        for layer in self._layers:
            yield from self._of_layer(layer)

    def find(self, path: str) -> ModelFile:
        """A file, looked for first in the layer that is annotated with its path.

        Raises:
            NotFound: there is no such file; the hint names those that look like it.
            SourceError: the file is not here, but linked.
        """
        if isinstance(self.model, Model):
            paths = [file.path for file in self.model.files]
            for file in self.model.files:
                if file.path == path:
                    return file
            if any(file.path == path for file in self.model.linked):
                raise SourceError(
                    f"{show(path)} is not in {self.subject}, which only links to it",
                    hint="add --fetch-links to have it fetched",
                )
            raise _missing(self.name, path, paths)
        paths = []
        for layer in sorted(self._layers, key=lambda each: path not in _annotated(each)):
            if layer.files and path not in _annotated(layer):
                paths += _annotated(layer)
                continue
            for file in self._of_layer(layer):
                if file.path == path:
                    return file
                paths.append(file.path)
        raise _missing(self.name, path, paths)

    @property
    def _layers(self) -> Sequence[StoredLayer]:
        return self.fetched.artifact.layers if self.fetched else ()

    def _of_layer(self, layer: StoredLayer) -> Iterator[ModelFile]:
        assert self.store is not None
        return layer_files(self.store, layer)


def _annotated(layer: StoredLayer) -> list[str]:
    """The paths that the manifest gives for a layer."""
    return [file.path for file in layer.files or keys.named_file(layer)]


def _missing(subject: str, path: str, paths: Sequence[str]) -> NotFound:
    name = path.rpartition("/")[2].lower()
    # A name alone may stand for a path, and a part of a name for the whole.
    found = sorted(closest(paths, path), key=lambda each: name not in each.lower())
    return NotFound(f"{subject} has no file {show(path)}", hint=some_tags(found, "files") or "it has no file")


@contextmanager
def open_model(
    subject: Source | Reference, options: SourceOptions, registry: RegistryOptions | None = None, *, exact: bool = False
) -> Iterator[OpenModel]:
    """Open a model; its files can be read inside the block.

    Args:
        subject: From `subject_of`.
        options: How a source on disk is read.
        registry: Credentials and TLS.
        exact: See `ReadOptions`.

    Raises:
        OcibridgeError: see `open_source` and `fetch_model`.
    """
    if isinstance(subject, Source):
        with open_source(subject, options, registry, exact=exact, linked=True) as (model, _):
            folder = isinstance(subject.place, Path) and subject.place.is_dir()
            yield OpenModel(str(subject), str(subject), model, model.warnings, folder)
        return
    with open_store(subject, registry) as store:
        fetched, notes = fetch_model(store, subject)
        pinned = str(subject.pinned(fetched.descriptor.digest))
        yield OpenModel(str(subject), pinned, fetched.artifact.model, [*notes, *store.warnings], False, fetched, store)
