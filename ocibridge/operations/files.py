# SPDX-License-Identifier: Apache-2.0
"""`open_file`: one file of a model, without the others."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from ..io.readers import ForwardingReader, Reader, byte_view
from ..model import Model, ModelFile
from ..oci import Reference
from ..transfer import open_verified
from .opened import OpenModel, open_model
from .options import FileOptions
from .sources import subject_of

if TYPE_CHECKING:
    from ..stores.registry import RegistryOptions


class OpenFile(ForwardingReader):
    """The bytes of one file of a model; a context manager, as every file is.

    Attributes:
        subject: The path of the model, or its pinned reference.
        path: Its path inside the model.
        size: Length in bytes.
        sha256: Hex sha256, if it is known; the read at the end then fails on any other bytes.
        warnings: What is to be known of the model, one sentence each.
    """

    def __init__(self, model: OpenModel, file: ModelFile, source: Reader, resources: ExitStack) -> None:
        self.source = source
        self.subject = model.subject
        self.path = file.path
        self.size = file.size
        self.sha256 = file.sha256
        self.warnings: Sequence[str] = model.warnings
        self._resources = resources

    def readinto(self, buffer: object, /) -> int:
        """Fill `buffer`.

        Raises:
            IntegrityError: the file is not what its model promises.
            StoreError: the store cannot be read.
        """
        return self.source.readinto(byte_view(buffer)) or 0

    def close(self) -> None:
        """Close the model, too."""
        super().close()
        self._resources.close()


def open_file(
    subject: str | os.PathLike[str] | Reference,
    path: str,
    options: FileOptions = FileOptions(),
    *,
    registry: RegistryOptions | None = None,
) -> OpenFile:
    """Open one file of a model; of an artifact nothing else is fetched but its manifest, config and tar headers.

    A raw layer is the file. In a tar layer the file is a range of bytes, which is asked for alone. A compressed layer
    is read as far as the file.

    Args:
        subject: A path, a model of Ollama (see `push`), or a reference.
        path: Path of the file inside the model, as `inspect` shows it.
        options: How a source on disk is read.
        registry: Credentials and TLS.

    Returns:
        The file, open for reading. Close it, or use it in a `with` block.

    Raises:
        NotFound: there is no such model, or no such file in it.
        SourceError: the source cannot be read, or only links to the file.
        FormatError: it is no model.
        IntegrityError: the layer does not hold what its manifest lists.
        StoreError: the store refused something.

    Example:
        >>> with open_file("localhost:5000/models/digits:v1", "carton.toml") as file:  # doctest: +SKIP
        ...     print(file.read())
    """
    with ExitStack() as stack:
        model = stack.enter_context(open_model(subject_of(subject), options, registry))
        file = model.find(path)
        # What is stored is verified by its content.
        source = open_verified(file) if isinstance(model.model, Model) else file.content.open()
        return OpenFile(model, file, source, stack.pop_all())
