# SPDX-License-Identifier: Apache-2.0
"""Descriptors, manifests and indexes (image-spec v1.1: descriptor.md, manifest.md, image-index.md).

Field order is that of `specs-go/v1` in opencontainers/image-spec.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from .digest import Digest, sha256_digest
from .document import Document

MEDIA_TYPE_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
MEDIA_TYPE_INDEX = "application/vnd.oci.image.index.v1+json"
MEDIA_TYPE_DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
MEDIA_TYPE_DOCKER_INDEX = "application/vnd.docker.distribution.manifest.list.v2+json"
MEDIA_TYPE_EMPTY = "application/vnd.oci.empty.v1+json"
EMPTY_CONFIG = b"{}"

ANNOTATION_TITLE = "org.opencontainers.image.title"
ANNOTATION_DESCRIPTION = "org.opencontainers.image.description"
ANNOTATION_LICENSES = "org.opencontainers.image.licenses"
ANNOTATION_SOURCE = "org.opencontainers.image.source"
ANNOTATION_URL = "org.opencontainers.image.url"
ANNOTATION_DOCUMENTATION = "org.opencontainers.image.documentation"
ANNOTATION_VERSION = "org.opencontainers.image.version"
ANNOTATION_CREATED = "org.opencontainers.image.created"
ANNOTATION_REF_NAME = "org.opencontainers.image.ref.name"

Annotations = dict[str, str]


class Descriptor(Document):
    """A content descriptor: media type, digest, and size in bytes of a blob."""

    media_type: str
    digest: Digest
    size: Annotated[int, Field(ge=0)]
    urls: list[str] | None = None
    annotations: Annotations | None = None
    data: str | None = None
    platform: dict[str, Any] | None = None
    artifact_type: str | None = None

    @staticmethod
    def of(data: bytes, media_type: str, annotations: Annotations | None = None) -> Descriptor:
        """The descriptor of some bytes."""
        return Descriptor(media_type=media_type, digest=sha256_digest(data), size=len(data), annotations=annotations)


class Manifest(Document):
    """An image manifest."""

    schema_version: Annotated[int, Field(ge=2, le=2)] = 2
    media_type: str | None = MEDIA_TYPE_MANIFEST
    artifact_type: str | None = None
    config: Descriptor
    layers: list[Descriptor]
    subject: Descriptor | None = None
    annotations: Annotations | None = None


class Index(Document):
    """An image index; also the `index.json` of an image layout."""

    schema_version: Annotated[int, Field(ge=2, le=2)] = 2
    media_type: str | None = MEDIA_TYPE_INDEX
    artifact_type: str | None = None
    manifests: list[Descriptor]
    subject: Descriptor | None = None
    annotations: Annotations | None = None


def media_type_of(document: dict[str, Any], announced: str | None = None) -> str:
    """The media type of a manifest or index: from its own field, else from the store, else from its keys."""
    own = document.get("mediaType")
    if isinstance(own, str) and own:
        return own
    if announced:
        return announced.partition(";")[0].strip()
    return MEDIA_TYPE_INDEX if "manifests" in document else MEDIA_TYPE_MANIFEST
