# SPDX-License-Identifier: Apache-2.0
"""The companion of an artifact that is the model's own manifest, if its format has one: that of Ollama, for example."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import FormatError
from ..formats.registry import format_named
from ..layers import BuiltManifest, Encoding, ManifestPlan
from ..model import Model, ModelFile
from ..oci import Descriptor, Reference
from ..stores.base import Store
from ..stores.content import BlobContent
from ..transfer import publish
from ..transfer.session import CopySession
from .artifacts import Fetched
from .companions import companion_reference, companion_suffixes
from .reports import AlsoReport


@dataclass(frozen=True, slots=True)
class OriginalManifest:
    """The model's own manifest, to be published with the artifact.

    Attributes:
        kind: Name of the format.
        data: Its bytes.
        media_type: Its media type.
        reference: Where it goes.
    """

    kind: str
    data: bytes
    media_type: str
    reference: Reference

    @property
    def descriptor(self) -> Descriptor:
        """Its descriptor."""
        return Descriptor.of(self.data, self.media_type)

    def publish(self, store: Store, session: CopySession | None = None) -> AlsoReport:
        """Store it; the blobs that it names have to be there."""
        built = BuiltManifest(self.data, self.media_type, b"", None, ())
        done = publish(ManifestPlan((), lambda _: built), store, self.reference.tag, session=session)
        digest, tag = done.manifest.digest, self.reference.version
        return AlsoReport(
            kind=self.kind, reference=str(self.reference.pinned(digest)), digest=digest, tag=tag, tags=[tag]
        )


def original_manifest(kind: str, model: Model, target: Reference) -> OriginalManifest:
    """The companion of `--also KIND`: the original manifest, as `TAG-KIND` in the same repository.

    Args:
        kind: Name of a format that has such manifests.
        model: The model.
        target: Where its artifact goes.

    Raises:
        FormatError: the model has no manifest that registries take.
        InvalidReference: the tag would be too long.
    """
    found = format_named(kind)
    assert found is not None
    assert found.companion is not None
    place = companion_reference(target, companion_suffixes()[kind])
    return OriginalManifest(kind, found.companion_manifest(model), found.companion, place)


def stored_manifest(kind: str, fetched: Fetched, store: Store, target: Reference) -> OriginalManifest:
    """The original manifest of an artifact in a store; see `original_manifest`.

    Raises:
        FormatError: the artifact is no model of that format with a layer for each of its blobs.
        InvalidReference: the tag would be too long.
    """
    artifact = fetched.artifact
    if any(layer.encoding is not Encoding.RAW for layer in artifact.layers):
        raise FormatError(
            f"{target} has files in tar layers, and its companion {kind} needs every blob as a layer of its own",
            hint="push the model with --layers raw-files",
        )
    files = tuple(
        ModelFile(entry.path, layer.role, BlobContent(store, layer.descriptor), entry.sha256)
        for layer in artifact.layers
        for entry in layer.files
    )
    return original_manifest(kind, Model(artifact.model.format or "", files, artifact.model.identity), target)
