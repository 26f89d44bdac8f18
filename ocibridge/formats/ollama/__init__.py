# SPDX-License-Identifier: Apache-2.0
"""Ollama models: the local models folder, and both generations of manifests (seed 004, and what Ollama writes)."""

from __future__ import annotations

from .checker import OllamaCheckSink
from .local import LocalOllama, models_dir, read_local
from .manifest import OllamaConfig, OllamaLayer, OllamaManifest, parse_ollama_config, parse_ollama_manifest
from .mediatype import parse_media_type
from .names import OllamaName, parse_ollama_name, parse_ollama_url
from .original import original_manifest
from .reader import read_ollama
from .writer import OllamaSink

__all__ = [
    "LocalOllama",
    "OllamaCheckSink",
    "OllamaConfig",
    "OllamaLayer",
    "OllamaManifest",
    "OllamaName",
    "OllamaSink",
    "models_dir",
    "original_manifest",
    "parse_media_type",
    "parse_ollama_config",
    "parse_ollama_manifest",
    "parse_ollama_name",
    "parse_ollama_url",
    "read_local",
    "read_ollama",
]
