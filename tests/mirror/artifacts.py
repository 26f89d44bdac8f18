# SPDX-License-Identifier: Apache-2.0
"""Small artifacts in real registries, and what is there afterwards."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ocibridge.io.content import BytesContent
from ocibridge.oci import MEDIA_TYPE_INDEX, MEDIA_TYPE_MANIFEST, Descriptor, RegistryReference, canonical_json
from ocibridge.stores.registry import RegistryStore

CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"


def store(host: str, repository: str) -> RegistryStore:
    return RegistryStore(RegistryReference(host, repository))


def put(
    host: str,
    repository: str,
    tag: str | None,
    layers: Sequence[bytes] = (b"layer",),
    *,
    config: bytes = b'{"architecture":"amd64","os":"linux"}',
    subject: Descriptor | None = None,
    artifact_type: str | None = None,
) -> Descriptor:
    """Push an artifact as any tool could have made it."""
    with store(host, repository) as target:
        described = [Descriptor.of(config, CONFIG), *(Descriptor.of(layer, LAYER) for layer in layers)]
        for descriptor, data in zip(described, [config, *layers], strict=True):
            target.push_blob(descriptor, BytesContent(data))
        document: dict[str, Any] = {"schemaVersion": 2, "mediaType": MEDIA_TYPE_MANIFEST}
        if artifact_type:
            document["artifactType"] = artifact_type
        document["config"] = short(described[0])
        document["layers"] = [short(each) for each in described[1:]]
        if subject:
            document["subject"] = short(subject)
        return target.push_manifest(canonical_json(document), MEDIA_TYPE_MANIFEST, tag)


def put_index(host: str, repository: str, tag: str | None, children: Sequence[Descriptor]) -> Descriptor:
    """Push an index over manifests that are there, for linux/amd64, linux/arm64 and so on."""
    document = {
        "schemaVersion": 2,
        "mediaType": MEDIA_TYPE_INDEX,
        "manifests": [
            {**short(child), "platform": {"architecture": architecture, "os": "linux"}}
            for child, architecture in zip(children, ("amd64", "arm64", "s390x"), strict=False)
        ],
    }
    with store(host, repository) as target:
        return target.push_manifest(canonical_json(document), MEDIA_TYPE_INDEX, tag)


def short(descriptor: Descriptor) -> dict[str, Any]:
    return {"mediaType": descriptor.media_type, "digest": descriptor.digest, "size": descriptor.size}


def tags(host: str, repository: str) -> dict[str, str]:
    """Every tag and its digest, but for the lists of referrers; none where there is no such repository."""
    with store(host, repository) as there:
        found = {}
        for tag in _listed(host, repository):
            if re.fullmatch("sha256-[0-9a-f]{64}", tag):
                continue
            head = there.head(tag)
            assert head is not None
            found[tag] = head.digest
        return found


def _listed(host: str, repository: str) -> list[str]:
    try:
        with urllib.request.urlopen(f"http://{host}/v2/{repository}/tags/list") as answer:
            return list(json.load(answer)["tags"] or ())
    except urllib.error.HTTPError as exc:
        exc.close()
        assert exc.code == 404
        return []


def whole(host: str, repository: str, version: str) -> dict[str, int]:
    """Digests and sizes of everything below a manifest, each of which is there, and has its digest."""
    with store(host, repository) as there:
        descriptor, data = there.fetch_manifest(version)
        found = {descriptor.digest: descriptor.size}
        document = json.loads(data)
        for child in document.get("manifests", ()):
            found |= whole(host, repository, child["digest"])
        config = document.get("config")
        for blob in [*([config] if config else []), *document.get("layers", ())]:
            one = Descriptor(media_type=blob["mediaType"], digest=blob["digest"], size=blob["size"])
            there.read_blob(one, 1 << 30)
            found[one.digest] = one.size
        return found


def drop_blob(host: str, repository: str, digest: str) -> None:
    """Take a blob out of a repository, and leave the manifests that name it."""
    request = urllib.request.Request(f"http://{host}/v2/{repository}/blobs/{digest}", method="DELETE")
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 202


def job(path: Path, text: str) -> Path:
    """Write a job file; what is indented in the test is not in the file."""
    lines = text.strip("\n").splitlines()
    indent = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
    path.write_text("\n".join(line[indent:] for line in lines) + "\n")
    return path


def requests(log: str) -> list[tuple[str, str, int]]:
    """Method, path and status of each request in a registry's access log."""
    found = re.findall(r'"(GET|HEAD|PUT|POST|PATCH|DELETE) (\S+) HTTP/1\.1" (\d+)', log)
    return [(method, path, int(status)) for method, path, status in found]
