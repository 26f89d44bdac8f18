# SPDX-License-Identifier: Apache-2.0
"""Graphs of manifests for tests, and what a registry was asked while they were copied."""

from __future__ import annotations

import re
import time
import uuid
from collections import Counter
from collections.abc import Sequence

from ocibridge.oci import MEDIA_TYPE_INDEX, Descriptor, Index, canonical_json
from ocibridge.stores.base import Store

from ..registry import RegistryServer
from ..stores.samples import Sample, sample

_LINE = re.compile(r'"(GET|HEAD|PUT|POST|PATCH|DELETE) (\S+) [^"]*" (\d+)')


class Logged:
    """A registry, and what it was asked since the last look."""

    def __init__(self, server: RegistryServer) -> None:
        self.host = server.host
        self._server = server
        self._seen = 0

    def asked(self, store: Store) -> Counter[str]:
        """Requests since the last call, such as `GET blobs 200`; `store` is how they were sent."""
        mark = f"mark{uuid.uuid4().hex}"
        store.head(mark)
        deadline = time.monotonic() + 10
        while not any(mark in path for _, path, _ in self._lines()):
            assert time.monotonic() < deadline, "the registry has not logged the request"
            time.sleep(0.01)
        lines = [line for line in self._lines() if "/mark" not in line[1]]
        new, self._seen = lines[self._seen :], len(lines)
        return Counter(_kind(method, path) + f" {status}" for method, path, status in new)

    def _lines(self) -> list[tuple[str, str, str]]:
        return _LINE.findall(self._server.log())


def _kind(method: str, path: str) -> str:
    if "mount=" in path:
        return "mount"
    match = re.search(r"/(manifests|blobs/uploads|blobs|referrers|tags|_catalog)\b", path)
    return f"{method} {match[1].rpartition('/')[2] if match else path}"


def push_index(
    store: Store,
    children: Sequence[Descriptor],
    tag: str | None,
    subject: Descriptor | None = None,
    media_type: str = MEDIA_TYPE_INDEX,
) -> Descriptor:
    """Store an index."""
    data = Index(media_type=media_type, manifests=list(children), subject=subject).to_json()
    return store.push_manifest(data, media_type, tag)


def on(descriptor: Descriptor, platform: str) -> Descriptor:
    """A descriptor for `OS/ARCHITECTURE[/VARIANT]`."""
    names = dict(zip(("os", "architecture", "variant"), platform.split("/"), strict=False))
    return descriptor.model_copy(update={"platform": names})


def referrer(subject: Descriptor, word: str = "sbom", kind: str = "application/vnd.example.sbom") -> Sample:
    """An artifact that refers to another."""
    plain = Descriptor(media_type=subject.media_type, digest=subject.digest, size=subject.size)
    return sample(word.encode(), subject=plain, artifact_type=kind)


def raw(**fields: object) -> bytes:
    """A manifest with just these fields."""
    return canonical_json({"schemaVersion": 2, **fields})
