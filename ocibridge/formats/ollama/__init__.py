# SPDX-License-Identifier: Apache-2.0
"""Ollama models: the local models folder, and both generations of manifests (seed 004, and what Ollama writes)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import UsageError
from ..format import Format
from ..options import WriteOptions
from .options import OllamaReadOptions

if TYPE_CHECKING:
    from ...model import Model, StoredModel
    from ..base import Sink
    from ..check import CheckSink
    from .address import OllamaAddress

__all__ = ["OllamaFormat", "OllamaReadOptions"]

_USAGE = "ollama:NAME[:TAG]"


class OllamaFormat(Format[OllamaReadOptions, WriteOptions]):
    """The models of Ollama, which have names and no paths.

    ```python
    model = OllamaFormat().address("ollama:llama3:8b").read(OllamaReadOptions())
    ```
    """

    name = "ollama"
    label = "models of Ollama"
    scheme = "ollama"
    usage = _USAGE
    raw_files = True
    companion = "application/vnd.docker.distribution.manifest.v2+json"
    read_options = OllamaReadOptions
    write_options = WriteOptions

    def matches(self, path: Path) -> bool:
        """No path is a model of Ollama."""
        return False

    def read(self, path: Path, options: OllamaReadOptions) -> Model:
        """See `address`."""
        raise UsageError(f"{path} is a path, and models of Ollama have names", hint=f"write {_USAGE}")

    def sink(self, dest: Path, stored: StoredModel, options: WriteOptions) -> Sink:
        """See `address`."""
        raise UsageError(f"{dest} is a path, and models of Ollama have names", hint=f"write {_USAGE}")

    def checker(self, stored: StoredModel) -> CheckSink:
        """See `OllamaCheckSink`."""
        from .checker import OllamaCheckSink

        return OllamaCheckSink(stored)

    def address(self, text: str) -> OllamaAddress:
        """See `parse_address`."""
        from .address import parse_address

        return parse_address(self, text)

    def companion_manifest(self, model: Model) -> bytes:
        """See `original_manifest`."""
        from .original import original_manifest

        return original_manifest(model)
