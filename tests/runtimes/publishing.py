# SPDX-License-Identifier: Apache-2.0
"""Artifacts written by hand, in the shape that other tools give them."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Mapping
from typing import Any

from ocibridge.io.content import BytesContent
from ocibridge.oci import MEDIA_TYPE_INDEX, MEDIA_TYPE_MANIFEST, Descriptor, RegistryReference, sha256_digest
from ocibridge.stores.registry import RegistryStore

from .containerd import ARCHITECTURE

IMAGE = "application/vnd.oci.image."
TITLE = "org.opencontainers.image.title"


def tar(files: Mapping[str, bytes], mode: int = 0o644) -> bytes:
    """A tar of some files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), mode
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


class Publisher:
    """Puts blobs, manifests and indexes into a repository of a registry; gives their descriptors as JSON objects."""

    def __init__(self, host: str, repository: str) -> None:
        self.name = f"{host}/{repository}"
        self._reference = RegistryReference(host, repository)

    def blob(self, data: bytes, media_type: str, **fields: object) -> dict[str, Any]:
        """A blob; `fields` are those of its descriptor beside type, digest and size."""
        with RegistryStore(self._reference) as store:
            store.push_blob(Descriptor.of(data, media_type), BytesContent(data))
        return {"mediaType": media_type, "digest": sha256_digest(data), "size": len(data), **fields}

    def config(self, value: object, media_type: str = f"{IMAGE}config.v1+json") -> dict[str, Any]:
        """A config."""
        return self.blob(json.dumps(value).encode(), media_type)

    def layers(self, *tars: bytes, packed: bool = False) -> list[dict[str, Any]]:
        """Layers of an image."""
        if packed:
            return [self.blob(gzip.compress(each, mtime=0), f"{IMAGE}layer.v1.tar+gzip") for each in tars]
        return [self.blob(each, f"{IMAGE}layer.v1.tar") for each in tars]

    def manifest(
        self, tag: str | None, config: dict[str, Any], layers: list[dict[str, Any]], **fields: object
    ) -> dict[str, Any]:
        """An image manifest; `fields` may change its media type."""
        document = {"schemaVersion": 2, "mediaType": MEDIA_TYPE_MANIFEST, **fields, "config": config, "layers": layers}
        return self._document(tag, document)

    def index(self, tag: str, *manifests: dict[str, Any], **fields: object) -> dict[str, Any]:
        """An index."""
        return self._document(
            tag, {"schemaVersion": 2, "mediaType": MEDIA_TYPE_INDEX, "manifests": list(manifests), **fields}
        )

    def published(self, digest: str) -> dict[str, Any]:
        """A manifest that is there already, as an index names it."""
        with RegistryStore(self._reference) as store:
            found, data = store.fetch_manifest(digest)
        kind = json.loads(data).get("artifactType")
        return {
            "mediaType": found.media_type,
            "digest": found.digest,
            "size": found.size,
            **({"artifactType": kind} if kind else {}),
        }

    def _document(self, tag: str | None, document: dict[str, Any]) -> dict[str, Any]:
        with RegistryStore(self._reference) as store:
            pushed = store.push_manifest(json.dumps(document).encode(), document["mediaType"], tag)
        return {"mediaType": document["mediaType"], "digest": pushed.digest, "size": pushed.size}


def image_config(*tars: bytes, architecture: str = ARCHITECTURE, **fields: object) -> dict[str, Any]:
    """The config of an image for Linux."""
    diff_ids = [sha256_digest(each) for each in tars]
    rootfs = {"type": "layers", "diff_ids": diff_ids}
    return {"architecture": architecture, "os": "linux", "config": {}, "rootfs": rootfs, **fields}
