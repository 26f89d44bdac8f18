# SPDX-License-Identifier: Apache-2.0
"""What is mirrored: small artifacts in one repository of a registry; and the job files that name them."""

from __future__ import annotations

import hashlib
import http.client
import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ocibridge.settings import KiB

LAYERS, LAYER = 4, 4 * KiB
"""Layers of a small artifact, and bytes of each."""
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
THREADS = 4
"""Connections by which they are pushed: as many as a mirror job has by default."""

DEFAULTS: dict[str, Any] = {"referrers": False, "digestTags": False, "fastCheck": True}
"""What a job has in common with skopeo, which copies tags and nothing else."""
PARALLEL = 16
"""Images that regsync copies at a time."""


def make_artifacts(host: str, repository: str, count: int) -> dict[str, str]:
    """Push `count` artifacts, which share no blob, by nothing but the distribution-spec.

    They are images as far as a registry or a tool can tell, so that none has to know more kinds than that.

    Returns:
        The digest of each tag.
    """
    with ThreadPoolExecutor(THREADS) as pool:
        parts = [range(start, count, THREADS) for start in range(THREADS)]
        found = [each for part in pool.map(lambda part: _push(host, repository, part), parts) for each in part]
    return dict(sorted(found))


def artifact(number: int) -> tuple[list[bytes], bytes]:
    """The blobs of an artifact, its config first, and its manifest."""
    layers = [hashlib.shake_256(f"{number} {layer}".encode()).digest(LAYER) for layer in range(LAYERS)]
    rootfs = {"type": "layers", "diff_ids": [_digest(layer) for layer in layers]}
    config = json.dumps({"architecture": "amd64", "os": "linux", "config": {}, "rootfs": rootfs}).encode()
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": _descriptor("application/vnd.oci.image.config.v1+json", config),
        "layers": [_descriptor("application/vnd.oci.image.layer.v1.tar", layer) for layer in layers],
    }
    return [config, *layers], json.dumps(manifest).encode()


def _push(host: str, repository: str, numbers: Iterable[int]) -> list[tuple[str, str]]:
    connection = http.client.HTTPConnection(host, timeout=60)
    tags = []
    for number in numbers:
        blobs, manifest = artifact(number)
        for blob in blobs:
            where = urlsplit(_ask(connection, "POST", f"/v2/{repository}/blobs/uploads/", b""))
            _ask(connection, "PUT", f"{where.path}?{where.query}&digest={_digest(blob)}", blob)
        tag = f"v{number}"
        _ask(connection, "PUT", f"/v2/{repository}/manifests/{tag}", manifest, _MANIFEST)
        tags.append((tag, _digest(manifest)))
    connection.close()
    return tags


def _ask(
    connection: http.client.HTTPConnection, method: str, url: str, body: bytes, kind: str = "application/octet-stream"
) -> str:
    """Send a request that makes something, and give where it is."""
    connection.request(method, url, body, {"Content-Type": kind})
    with connection.getresponse() as response:
        said = response.read()
        if response.status not in (201, 202):
            raise SystemExit(f"{method} {url}: {response.status} {said.decode(errors='replace')[:1000]}")
        return response.headers["Location"] or ""


def _descriptor(media_type: str, data: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(data), "size": len(data)}


def _digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def tags_of(host: str, repository: str) -> set[str]:
    """The tags of a repository."""
    return set(_get(host, f"/v2/{repository}/tags/list").get("tags") or ())


def heads(host: str, repository: str, tags: Iterable[str]) -> None:
    """Ask for each tag over one connection, one after the other: the least that tells whether it is in sync."""
    connection = http.client.HTTPConnection(host, timeout=60)
    for tag in tags:
        connection.request("HEAD", f"/v2/{repository}/manifests/{tag}", headers={"Accept": _MANIFEST})
        with connection.getresponse() as response:
            response.read()
            assert response.status == 200, response.status
    connection.close()


def largest_blob(host: str, repository: str, tag: str) -> str:
    """The digest of the largest layer of a manifest."""
    layers = _get(host, f"/v2/{repository}/manifests/{tag}")["layers"]
    return str(max(layers, key=lambda layer: int(layer["size"]))["digest"])


def _get(host: str, url: str) -> Any:
    connection = http.client.HTTPConnection(host, timeout=60)
    connection.request("GET", url, headers={"Accept": f"{_MANIFEST}, application/json"})
    with connection.getresponse() as response:
        found = json.loads(response.read())
    connection.close()
    return found


def whole_job(path: Path, source: str, target: str) -> Path:
    """A job file that keeps all tags of a repository in sync, and does no more than skopeo does."""
    return _job(path, [{"source": source, "target": target, "type": "repository"}])


def pinned_job(path: Path, source: str, target: str, digests: dict[str, str]) -> Path:
    """The same, with an entry for each tag that names its digest."""
    return _job(
        path,
        [
            {"source": f"{source}:{tag}@{digest}", "target": f"{target}:{tag}", "type": "image"}
            for tag, digest in digests.items()
        ],
    )


def regsync_job(path: Path, source: str, target: str) -> Path:
    """The same as `whole_job` for regsync, which has to be told that the registries speak plain HTTP."""
    hosts = dict.fromkeys(each.partition("/")[0] for each in (source, target))
    creds = [{"registry": host, "tls": "disabled"} for host in hosts]
    entries = [{"source": source, "target": target, "type": "repository"}]
    return _written(
        path, {"version": 1, "creds": creds, "defaults": DEFAULTS | {"parallel": PARALLEL}, "sync": entries}
    )


def _job(path: Path, entries: list[dict[str, str]]) -> Path:
    return _written(path, {"version": 1, "defaults": DEFAULTS, "sync": entries})


def _written(path: Path, job: dict[str, Any]) -> Path:
    # JSON is YAML.
    path.write_text(json.dumps(job, indent=1), encoding="utf-8")
    return path
