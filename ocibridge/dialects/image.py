# SPDX-License-Identifier: Apache-2.0
"""The image companion of an artifact: the same layers in the words that container runtimes mount.

A runtime reads files only from layers of the OCI image types, in an image whose config has a diff id for each of them
(image-spec, config.md, "rootfs"). The layers are described again, not made again: digests and sizes are the artifact's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import UsageError
from ..layers import Encoding, StoredLayer
from ..oci import MEDIA_TYPE_INDEX, MEDIA_TYPE_MANIFEST, Descriptor, Index, Manifest, canonical_json
from ..paths import show
from . import annotations as keys
from .draft import CONFIG_TYPE

COMPANION_KIND = "image"
"""Value of the annotation `org.ocibridge.sibling` on the index."""
_PLATFORM = re.compile(r"([a-z0-9._-]+)/([a-z0-9._-]+)(?:/([a-z0-9._-]+))?")


@dataclass(frozen=True, slots=True)
class ImageLayer:
    """A layer that a runtime can unpack.

    Attributes:
        digest: Digest of the blob.
        size: Length of the blob in bytes.
        encoding: Anything but `RAW`.
        diff_id: Digest of the uncompressed tar.
    """

    digest: str
    size: int
    encoding: Encoding
    diff_id: str

    @property
    def descriptor(self) -> Descriptor:
        """Its descriptor in an image manifest."""
        return Descriptor(
            media_type=f"application/vnd.oci.image.layer.v1.{self.encoding.value}", digest=self.digest, size=self.size
        )


@dataclass(frozen=True, slots=True)
class PlatformImage:
    """The image for one platform.

    Attributes:
        platform: As `parse_platforms` gives it.
        config: Config object, byte for byte.
        config_descriptor: Its descriptor.
        manifest: Manifest, byte for byte.
        descriptor: Its descriptor, as the index has it.
    """

    platform: str
    config: bytes
    config_descriptor: Descriptor
    manifest: bytes
    descriptor: Descriptor


@dataclass(frozen=True, slots=True)
class Image:
    """An image for several platforms.

    Attributes:
        platforms: One image each.
        layers: Descriptors of the layers, which are the same for all.
        index: Index, byte for byte.
        descriptor: Its descriptor.
    """

    platforms: tuple[PlatformImage, ...]
    layers: tuple[Descriptor, ...]
    index: bytes
    descriptor: Descriptor


def image_layer(layer: StoredLayer) -> ImageLayer:
    """A tar layer of an artifact as one of an image.

    Raises:
        FormatError: it is compressed, and nothing says what it unpacks to.
    """
    found = layer.diff_id if layer.encoding.compressed else layer.descriptor.digest
    blob = layer.descriptor
    return ImageLayer(blob.digest, blob.size, layer.encoding, found or keys.plain_diff_id(layer))


def image_of(layers: Sequence[ImageLayer], platforms: Sequence[str], subject: Descriptor) -> Image:
    """Write configs, manifests and index.

    Args:
        layers: The layers, in the order in which they are mounted.
        platforms: From `parse_platforms`; a model has the same bytes on all of them.
        subject: Descriptor of the artifact's manifest, which the index refers to.
    """
    descriptors = tuple(layer.descriptor for layer in layers)
    diff_ids = [layer.diff_id for layer in layers]
    images = tuple(_platform_image(each, descriptors, diff_ids) for each in platforms)
    index = Index(
        manifests=[each.descriptor for each in images],
        subject=Descriptor(media_type=subject.media_type, digest=subject.digest, size=subject.size),
        annotations={keys.COMPANION: COMPANION_KIND},
    ).to_json()
    return Image(images, descriptors, index, Descriptor.of(index, MEDIA_TYPE_INDEX))


def _platform_image(platform: str, layers: Sequence[Descriptor], diff_ids: Sequence[str]) -> PlatformImage:
    os, architecture, *variant = platform.split("/")
    # Field order of the Go types `specs-go/v1.Image` and `specs-go/v1.Platform`, which agree in it.
    named = {"architecture": architecture, "os": os, **({"variant": variant[0]} if variant else {})}
    config = canonical_json({**named, "config": {}, "rootfs": {"type": "layers", "diff_ids": list(diff_ids)}})
    config_descriptor = Descriptor.of(config, CONFIG_TYPE)
    manifest = Manifest(config=config_descriptor, layers=list(layers)).to_json()
    descriptor = Descriptor.of(manifest, MEDIA_TYPE_MANIFEST).model_copy(update={"platform": named})
    return PlatformImage(platform, config, config_descriptor, manifest, descriptor)


def parse_platforms(names: Sequence[str]) -> list[str]:
    """Check `OS/ARCHITECTURE[/VARIANT]` names, and put them in the order in which an index has them.

    Example:
        >>> parse_platforms(["linux/arm64", "linux/amd64", "linux/arm64"])
        ['linux/amd64', 'linux/arm64']

    Raises:
        UsageError: there is none, or one that is malformed.
    """
    for name in names:
        if not _PLATFORM.fullmatch(name):
            raise UsageError(f"{show(name)} is no platform", hint="write OS/ARCHITECTURE, such as linux/amd64")
    if not names:
        raise UsageError("an image is for one platform at least", hint="name one, such as linux/amd64")
    return sorted(set(names))
