# SPDX-License-Identifier: Apache-2.0
"""The manifest that `ollama pull` reads from a registry; it shares its blobs with the artifact."""

from __future__ import annotations

from ...errors import FormatError
from ...io.content import read_all
from ...model import Model
from ...settings import DEFAULT_LIMITS, Limits
from .manifest import parse_ollama_manifest
from .paths import MANIFEST_PATH


def original_manifest(model: Model, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """The Ollama manifest of a model, verbatim, if a registry takes it.

    It is of the media type `application/vnd.docker.distribution.manifest.v2+json`. All blobs that it names are files of
    the model, so that an artifact with `raw-files` layers in the same repository has them already.

    Args:
        model: From `read_ollama`.
        limits: See `ocibridge.settings.Limits`.

    Raises:
        FormatError: the model has no such manifest, or only layers in it (seed 004), which registries refuse.
    """
    file = next((each for each in model.files if each.path == MANIFEST_PATH), None)
    if file is None:
        raise FormatError(
            "the model has no Ollama manifest that could be published with it", hint="leave out --also ollama"
        )
    owner = model.origin.get("ollama.ref", "the model")
    data = read_all(file.content)
    if not parse_ollama_manifest(data, owner, limits.manifest).docker:
        raise FormatError(
            f"the Ollama manifest of {owner} has only layers: registries refuse it as a docker manifest",
            hint="leave out --also ollama; the artifact itself contains the manifest and restores the model",
        )
    return data
