# SPDX-License-Identifier: Apache-2.0
"""Model folders: any folder, with what Hugging Face layouts, GGUF and safetensors files say of themselves.

Every file that is not ignored is carried, `.ocibridge.toml` and `.ocibridgeignore` too, so that a folder that was
pulled is published again as it was. Empty folders, modes and times are not carried.
"""

from __future__ import annotations

from pathlib import Path

from ...model import Model
from ..base import ReadOptions, Sink, StoredModel, WriteOptions
from ..check import CheckSink

__all__ = ["FolderFormat"]

_FILES = (".gguf", ".safetensors")


class FolderFormat:
    """Any folder, and a single GGUF or safetensors file as a model of one file (a `Format`).

    ```python
    model = FolderFormat().read(Path("Qwen3-0.6B"), ReadOptions(roles=(("assets/", Role.DOC),)))
    ```
    """

    name = "folder"

    def matches(self, path: Path) -> bool:
        """Whether `path` is a folder, or a file named `*.gguf` or `*.safetensors`."""
        return path.is_dir() or (path.suffix.lower() in _FILES and path.is_file())

    def read(self, path: Path, options: ReadOptions) -> Model:
        """Read the folder or file at `path`; see `read_tree`."""
        from .reader import read_tree

        return read_tree(path, options)

    def suits(self, dest: Path) -> bool:
        """Whether `dest` may be the name of a folder: any name but that of a weights file."""
        return dest.is_dir() or dest.suffix.lower() not in _FILES

    def sink(self, dest: Path, stored: StoredModel, options: WriteOptions) -> Sink:
        """A sink for a folder (also for what was one file: the folder then has that file in it)."""
        from ..foldersink import FolderSink

        return FolderSink(dest, stored, options)

    def checker(self, stored: StoredModel) -> CheckSink:
        """A sink that compares the files with what the manifest lists; a folder promises no more."""
        return CheckSink(stored)
