# SPDX-License-Identifier: Apache-2.0
"""Model folders: any folder, with what Hugging Face layouts, GGUF and safetensors files say of themselves.

Every file that is not ignored is stored, `.ocibridge.toml` too, so that a folder that was
pulled is published again as it was. Empty folders, modes and times are not stored.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..format import Format
from ..options import WriteOptions
from .options import FolderReadOptions

if TYPE_CHECKING:
    from ...model import Model, StoredModel
    from ..base import Sink

__all__ = ["FolderFormat", "FolderReadOptions"]


class FolderFormat(Format[FolderReadOptions, WriteOptions]):
    """Any folder, and a single GGUF or safetensors file as a model of one file.

    ```python
    model = FolderFormat().read(Path("Qwen3-0.6B"), FolderReadOptions(roles=[("assets/", "doc")]))
    ```
    """

    name = "folder"
    label = "model folders"
    suffixes = (".gguf", ".safetensors")
    read_options = FolderReadOptions
    write_options = WriteOptions

    def matches(self, path: Path) -> bool:
        """Return whether `path` is a folder, or a file named `*.gguf` or `*.safetensors`."""
        return path.is_dir() or (self.suits(path) and path.is_file())

    def read(self, path: Path, options: FolderReadOptions) -> Model:
        """Read the folder or file at `path`; see `read_tree`."""
        from .reader import read_tree

        return read_tree(path, options)

    def sink(self, dest: Path, stored: StoredModel, options: WriteOptions) -> Sink:
        """A sink for a folder; where `options.packed` is true, for the only file of a model."""
        if options.packed:
            from ..onefile import OneFileSink

            return OneFileSink(dest, stored, options)
        from ..foldersink import FolderSink

        return FolderSink(dest, stored, options)
