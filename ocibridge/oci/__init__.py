# SPDX-License-Identifier: Apache-2.0
"""Digests, descriptors, manifests and references: immutable data without I/O."""

from .digest import SHA256, Digest, parse_digest, sha256_digest
from .document import Document, canonical_json, parse_document, parse_json
from .manifest import (
    EMPTY_CONFIG,
    MEDIA_TYPE_DOCKER_INDEX,
    MEDIA_TYPE_DOCKER_MANIFEST,
    MEDIA_TYPE_EMPTY,
    MEDIA_TYPE_INDEX,
    MEDIA_TYPE_MANIFEST,
    Descriptor,
    Index,
    Manifest,
    media_type_of,
)
from .reference import (
    ArchiveReference,
    LayoutReference,
    Reference,
    RegistryReference,
    has_scheme,
    is_host,
    is_repository,
    parse_reference,
    without_scheme,
)

__all__ = [
    "EMPTY_CONFIG",
    "MEDIA_TYPE_DOCKER_INDEX",
    "MEDIA_TYPE_DOCKER_MANIFEST",
    "MEDIA_TYPE_EMPTY",
    "MEDIA_TYPE_INDEX",
    "MEDIA_TYPE_MANIFEST",
    "SHA256",
    "ArchiveReference",
    "Descriptor",
    "Digest",
    "Document",
    "Index",
    "LayoutReference",
    "Manifest",
    "Reference",
    "RegistryReference",
    "canonical_json",
    "has_scheme",
    "is_host",
    "is_repository",
    "media_type_of",
    "parse_digest",
    "parse_document",
    "parse_json",
    "parse_reference",
    "sha256_digest",
    "without_scheme",
]
