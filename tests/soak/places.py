# SPDX-License-Identifier: Apache-2.0
"""What really is in a registry, a layout or an archive of one: read without any code of the package.

Every digest is computed anew from the bytes, over a connection without faults.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import tarfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

_ACCEPT = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json"
_TAG = "org.opencontainers.image.ref.name"


class Place(ABC):
    """A repository or layout."""

    @abstractmethod
    def tags(self) -> dict[str, str]:
        """The digest that each tag leads to."""

    @abstractmethod
    def read(self, digest: str, *, manifest: bool) -> bytes | None:
        """A manifest or blob; None if there is none of that name."""

    def missing(self, digest: str) -> list[str]:
        """What is missing or wrong below a manifest."""
        data = self.read(digest, manifest=True)
        if (wrong := _wrong(data, digest, None)) or data is None:
            return [f"manifest {wrong}"]
        document = json.loads(data)
        found = []
        for child in document.get("manifests", ()):
            found += self.missing(child["digest"])
        for blob in [*filter(None, [document.get("config")]), *document.get("layers", ())]:
            wrong = _wrong(self.read(blob["digest"], manifest=False), blob["digest"], blob["size"])
            found += [f"blob {wrong}"] if wrong else []
        return found


def _wrong(data: bytes | None, digest: str, size: int | None) -> str:
    if data is None:
        return f"{digest} is not there"
    if size is not None and len(data) != size:
        return f"{digest} has {len(data)} bytes instead of {size}"
    return "" if _sha256(data) == digest else f"{digest} has the digest {_sha256(data)}"


def _sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Repository(Place):
    """A repository of a registry.

    Args:
        host: `HOST:PORT` of the registry itself.
        name: Name of the repository.
    """

    def __init__(self, host: str, name: str) -> None:
        self._host = host
        self._name = name

    def tags(self) -> dict[str, str]:
        """See `Place`."""
        listed = self._get("tags/list")
        names = (json.loads(listed)["tags"] or ()) if listed else ()
        found = {}
        for name in names:
            data = self._get(f"manifests/{name}")
            # A tag of a manifest that is not there is listed all the same.
            found[name] = "nothing" if data is None else _sha256(data)
        return found

    def read(self, digest: str, *, manifest: bool) -> bytes | None:
        """See `Place`."""
        return self._get(f"{'manifests' if manifest else 'blobs'}/{digest}")

    def _get(self, path: str) -> bytes | None:
        connection = http.client.HTTPConnection(self._host, timeout=60)
        try:
            connection.request("GET", f"/v2/{self._name}/{path}", headers={"Accept": _ACCEPT})
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        if answer.status not in (200, 404):
            raise RuntimeError(f"the registry answers {answer.status} for {path} of {self._name}")
        return data if answer.status == 200 else None


class Layout(Place):
    """A layout folder, or the archive of one; where there is nothing, it has no tags.

    Args:
        path: The folder or file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def tags(self) -> dict[str, str]:
        """See `Place`."""
        data = self._file("index.json")
        entries: list[dict[str, Any]] = json.loads(data)["manifests"] if data else []
        return {
            entry["annotations"][_TAG]: entry["digest"] for entry in entries if _TAG in entry.get("annotations", {})
        }

    def read(self, digest: str, *, manifest: bool) -> bytes | None:
        """See `Place`."""
        return self._file(f"blobs/{digest.replace(':', '/')}")

    def _file(self, name: str) -> bytes | None:
        if self._path.is_file():
            with tarfile.open(self._path) as archive:
                try:
                    member = archive.extractfile(name)
                except KeyError:
                    return None
                return member.read() if member else None
        try:
            return (self._path / name).read_bytes()
        except FileNotFoundError:
            return None
