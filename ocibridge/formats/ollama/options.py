# SPDX-License-Identifier: Apache-2.0
"""The options of models of Ollama."""

from __future__ import annotations

from dataclasses import dataclass

from ...options import option
from ..options import ReadOptions


@dataclass(frozen=True, kw_only=True)
class OllamaReadOptions(ReadOptions):
    """Options for reading an Ollama model."""

    strip_from: bool = option(
        False, help="leave the 'from' fields out of an Ollama manifest, which may hold local paths; its ID changes"
    )
