# SPDX-License-Identifier: Apache-2.0
"""The Ollama companion: the model's own manifest, published with its artifact."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import FormatError
from ..formats.registry import format_named
from ..layers import BuiltManifest, Encoding, ManifestPlan
from ..model import Model, ModelFile
from ..oci import MEDIA_TYPE_DOCKER_MANIFEST, Reference, parse_reference
from ..settings import OLLAMA_SUFFIX
from ..stores.base import Store
from ..stores.content import BlobContent
from ..transfer import publish
from ..transfer.session import CopySession
from .artifacts import Fetched
from .reports import AlsoReport


@dataclass(frozen=True, slots=True)
class OllamaCompanion:
    """The model's own manifest, to be published with the artifact.

    Attributes:
        data: Its bytes.
        reference: Where it goes.
    """

    data: bytes
    reference: Reference

    def publish(self, store: Store, session: CopySession | None = None) -> AlsoReport:
        """Store it; the blobs that it names have to be there."""
        built = BuiltManifest(self.data, MEDIA_TYPE_DOCKER_MANIFEST, b"", None, ())
        done = publish(ManifestPlan((), lambda _: built), store, self.reference.tag, session=session)
        return AlsoReport(kind="ollama", reference=str(self.reference), digest=done.manifest.digest)


def companion(model: Model, target: Reference) -> OllamaCompanion:
    """The companion of `--also ollama`: the original manifest, as `<tag>-ollama` in the same repository.

    Raises:
        FormatError: the model has no manifest that registries take.
        InvalidReference: the tag would be too long.
    """
    ollama = format_named("ollama")
    assert ollama
    return OllamaCompanion(
        ollama.companion_manifest(model), parse_reference(f"{target.name}:{target.version}{OLLAMA_SUFFIX}")
    )


def stored_companion(fetched: Fetched, store: Store, target: Reference) -> OllamaCompanion:
    """The Ollama companion of an artifact in a store, as `--also ollama` publishes it.

    Raises:
        FormatError: the artifact is no model of Ollama with a layer for each of its blobs.
        InvalidReference: the tag would be too long.
    """
    artifact = fetched.artifact
    if any(layer.encoding is not Encoding.RAW for layer in artifact.layers):
        raise FormatError(
            f"{target} has files in tar layers, and Ollama needs every blob as a layer of its own",
            hint="push the model with --layers raw-files",
        )
    files = tuple(
        ModelFile(entry.path, layer.role, BlobContent(store, layer.descriptor), entry.sha256)
        for layer in artifact.layers
        for entry in layer.files
    )
    return companion(Model(artifact.model.format or "", files, artifact.model.identity), target)
