# SPDX-License-Identifier: Apache-2.0
"""A small artifact, and ways to put it into a store and to look at what came out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ocibridge.io.content import BytesContent
from ocibridge.io.readers import chunks
from ocibridge.oci import EMPTY_CONFIG, MEDIA_TYPE_EMPTY, MEDIA_TYPE_MANIFEST, Descriptor, Manifest
from ocibridge.stores.base import Store

LAYER = "application/vnd.example.layer"


@dataclass(frozen=True)
class Sample:
    """An artifact in memory."""

    manifest: bytes
    blobs: tuple[tuple[Descriptor, bytes], ...]

    @property
    def digest(self) -> str:
        return Descriptor.of(self.manifest, MEDIA_TYPE_MANIFEST).digest

    def push(self, store: Store, tag: str | None) -> Descriptor:
        for descriptor, data in self.blobs:
            store.push_blob(descriptor, BytesContent(data))
        return store.push_manifest(self.manifest, MEDIA_TYPE_MANIFEST, tag)

    def assert_in(self, store: Store, version: str) -> None:
        descriptor, data = store.fetch_manifest(version)
        assert (descriptor.digest, data) == (self.digest, self.manifest)
        for blob, expected in self.blobs:
            assert read(store, blob) == expected


def sample(
    *layers: bytes,
    subject: Descriptor | None = None,
    artifact_type: str | None = "application/vnd.example.model",
    annotations: dict[str, str] | None = None,
) -> Sample:
    config = Descriptor.of(EMPTY_CONFIG, MEDIA_TYPE_EMPTY)
    blobs = [(Descriptor.of(data, LAYER), data) for data in layers or (b"layer", b"")]
    manifest = Manifest(
        artifact_type=artifact_type,
        config=config,
        layers=[descriptor for descriptor, _ in blobs],
        subject=subject,
        annotations=annotations,
    )
    return Sample(manifest.to_json(), ((config, EMPTY_CONFIG), *blobs))


def read(store: Store, descriptor: Descriptor) -> bytes:
    with store.open_blob(descriptor) as reader:
        return b"".join(bytes(chunk) for chunk in chunks(reader))


def files(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }
