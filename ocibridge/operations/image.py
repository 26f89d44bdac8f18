# SPDX-License-Identifier: Apache-2.0
"""Publishing the image companion of an artifact, which container runtimes mount."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .. import settings
from ..dialects.base import StoredArtifact
from ..dialects.choices import Compress, Layers
from ..dialects.image import Image, ImageLayer, image_layer, image_of, parse_platforms
from ..dialects.packing import ROLE_ORDER, Packed, pack, under
from ..errors import LimitError
from ..io.content import Content
from ..layers import BuiltManifest, Encoding, LayerDigests, ManifestPlan, StoredLayer
from ..model import ModelFile
from ..oci import MEDIA_TYPE_INDEX, MEDIA_TYPE_MANIFEST, Descriptor, Reference
from ..stores.base import Store
from ..stores.content import BlobContent
from ..transfer import DigestCache, LayerAction, Progress, publish
from ..transfer.session import CopySession
from .artifacts import Fetched, fetch_artifact
from .companions import IMAGE, companion_reference
from .reports import AlsoReport


@dataclass(frozen=True, slots=True)
class PublishedImage:
    """A published companion image.

    Attributes:
        image: The image.
        layers: What happened to each of its layers.
    """

    image: Image
    layers: tuple[LayerAction, ...]


@dataclass(frozen=True, slots=True)
class ImageCompanion:
    """The companion image of `push --also image`.

    Attributes:
        artifact: Where the artifact goes.
        reference: Where the image goes.
        platforms: From `parse_platforms`.
    """

    artifact: Reference
    reference: Reference
    platforms: tuple[str, ...]

    def publish(
        self, store: Store, artifact: Descriptor, contents: Mapping[str, Content], **options: Any
    ) -> AlsoReport:
        """Publish it for an artifact that the store has.

        Args:
            store: Where they are.
            artifact: Descriptor of the artifact's manifest.
            contents: See `publish_image`, which gets the `options`, too.
        """
        fetched = fetch_artifact(store, self.artifact.pinned(artifact.digest))
        done = publish_image(
            fetched, store, store, self.reference.version, platforms=self.platforms, contents=contents, **options
        )
        digest, tag = done.image.descriptor.digest, self.reference.version
        return AlsoReport(kind=IMAGE, reference=str(self.reference.pinned(digest)), digest=digest, tag=tag, tags=[tag])


def companion_of(target: Reference, platforms: Sequence[str]) -> ImageCompanion:
    """The companion image of what is pushed to `target`.

    Raises:
        UsageError: a platform is malformed.
        InvalidReference: the tag would be too long.
    """
    return ImageCompanion(target, companion_reference(target, settings.IMAGE_SUFFIX), tuple(parse_platforms(platforms)))


def publish_image(
    fetched: Fetched,
    source: Store,
    target: Store,
    tag: str,
    *,
    platforms: Sequence[str],
    max_layers: int = settings.MAX_LAYERS,
    contents: Mapping[str, Content] | None = None,
    session: CopySession | None = None,
    cache: DigestCache | None = None,
    concurrency: int = settings.CONCURRENCY,
    progress: Progress | None = None,
) -> PublishedImage:
    """Publish an image of the layers of an artifact.

    Tar layers are taken as they are: none is read, and none moves where `target` is `source`. Raw layers are wrapped in
    tar as `push --layers tar` would have done, streaming, with no copy on the disk.

    Args:
        fetched: The artifact.
        source: Where it is.
        target: Where the image goes; may be `source` itself.
        tag: Its tag.
        platforms: From `parse_platforms`.
        max_layers: Layers that it may have.
        contents: Bytes of files by their path in the model, where they are nearer than `source`.
        session: What is known in this run.
        cache: Digests found in earlier runs.
        concurrency: Blobs that move at the same time.
        progress: Receives progress events.

    Raises:
        LimitError: there are more layers than allowed, and they cannot share.
        FormatError: a file has a name that a runtime takes for a whiteout, or a layer does not say what it unpacks to.
        IntegrityError: a byte is not what was promised.
        StoreError: one of the stores refused something.
    """
    parts = _parts(fetched.artifact, source, contents or {}, max_layers, str(fetched.descriptor.digest))
    images: list[Image] = []

    def build(digests: Sequence[LayerDigests]) -> BuiltManifest:
        found = iter(digests)
        layers = [image_layer(each) if isinstance(each, StoredLayer) else _made(each, next(found)) for each in parts]
        image = image_of(layers, platforms, fetched.descriptor)
        images.append(image)
        return BuiltManifest(
            image.index,
            MEDIA_TYPE_INDEX,
            b"",
            None,
            image.layers,
            fetched.descriptor,
            tuple(
                BuiltManifest(each.manifest, MEDIA_TYPE_MANIFEST, each.config, each.config_descriptor, image.layers)
                for each in image.platforms
            ),
        )

    plan = ManifestPlan(tuple(each if isinstance(each, StoredLayer) else each.layer for each in parts), build)
    done = publish(
        plan,
        target,
        tag,
        source=source,
        session=session,
        concurrency=concurrency,
        progress=progress,
        cache=cache,
    )
    return PublishedImage(images[-1], done.layers)


def _parts(
    artifact: StoredArtifact, source: Store, contents: Mapping[str, Content], max_layers: int, owner: str
) -> list[StoredLayer | Packed]:
    """The layers of the image: those that there are, and those that have to be made."""
    stored = [each for each in artifact.layers if each.encoding is not Encoding.RAW]
    raw = [each for each in artifact.layers if each.encoding is Encoding.RAW]
    if len(stored) + bool(raw) > max_layers:
        raise LimitError(
            f"{owner} has {len(stored)} tar layers, and an image of no more than {max_layers} is asked for",
            hint="push the model again with --layers tar, so that files share layers, or with a larger --max-layers",
        )
    if not raw:
        return [*stored]
    files = [
        ModelFile(
            path=each.files[0].path,
            role=each.role,
            content=contents.get(each.files[0].path) or BlobContent(source, each.descriptor),
            sha256=each.files[0].sha256,
        )
        for each in raw
    ]
    packed = pack(under(files, raw[0].prefix), Layers.TAR, Compress.NONE, max_layers - len(stored))
    return sorted([*stored, *packed], key=lambda each: ROLE_ORDER.index(each.role))


def _made(packed: Packed, found: LayerDigests) -> ImageLayer:
    return ImageLayer(found.digest, found.size, packed.layer.encoding, found.diff_id)
