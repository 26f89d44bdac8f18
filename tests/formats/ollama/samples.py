# SPDX-License-Identifier: Apache-2.0
"""Ollama models in memory, and the folder of the fixtures."""

from __future__ import annotations

import hashlib
import json
import struct
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ocibridge.errors import SourceError
from ocibridge.formats.base import WriteOptions
from ocibridge.formats.ollama.names import OllamaName
from ocibridge.formats.ollama.options import OllamaReadOptions
from ocibridge.formats.ollama.reader import read_ollama
from ocibridge.formats.ollama.writer import OllamaSink
from ocibridge.io.content import BytesContent, Content
from ocibridge.io.existing import TargetRules
from ocibridge.model import FileEntry, Model, ModelFile, ModelInfo, Role, StoredModel
from ocibridge.oci import Descriptor

from ..build import stored_of

FIXTURES = Path(__file__).parents[2] / "fixtures"
IDENTITY: dict[str, Any] = next(
    entry["identity"]
    for entry in json.loads((FIXTURES / "fixtures.json").read_text(encoding="utf-8"))["fixtures"]
    if entry["file"] == "ollama-store.tar"
)
MODELS: dict[str, dict[str, Any]] = IDENTITY["models"]
"""What fixtures.json says of each model, by name."""

P = "application/vnd.ollama.image."
DOCKER = "application/vnd.docker.distribution.manifest.v2+json"
NAME = OllamaName("test")


def unpack_store(folder: Path) -> Path:
    """The models folder of the fixtures."""
    with tarfile.open(FIXTURES / "ollama-store.tar") as archive:
        for member in archive.getmembers():
            source = archive.extractfile(member)
            if source:
                path = folder / member.name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(source.read())
    return folder


def gguf(**metadata: str) -> bytes:
    """A GGUF file with one tensor of 1,500,000 elements, and no data."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    pairs = {"general.architecture": "llama", **{key.replace("__", "."): value for key, value in metadata.items()}}
    body = b"".join(text(key) + struct.pack("<I", 8) + text(value) for key, value in pairs.items())
    tensor = text("w") + struct.pack("<IQIQ", 1, 1_500_000, 1, 0)
    return b"GGUF" + struct.pack("<IQQ", 3, 1, len(pairs)) + body + tensor


GGUF = gguf()


class Blobs:
    """Blobs in memory; counts how often each is asked for."""

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}

    def add(self, data: bytes) -> dict[str, Any]:
        digest = "sha256:" + hashlib.sha256(data).hexdigest()
        self.data[digest] = data
        return {"digest": digest, "size": len(data)}

    def __call__(self, descriptor: Descriptor) -> Content:
        if descriptor.digest not in self.data:
            raise SourceError(f"the blob {descriptor.digest} is missing")
        return BytesContent(self.data[descriptor.digest])


Row = tuple[str, bytes] | tuple[str, bytes, dict[str, Any]]


def manifest(blobs: Blobs, rows: Iterable[Row], config: Mapping[str, Any] | None = None, **extra: Any) -> bytes:
    """A manifest with layers of these types (after the common prefix, unless they have a slash) and bytes."""
    layers = []
    for kind, data, *more in rows:
        layers.append({"mediaType": kind if "/" in kind else P + kind, **blobs.add(data), **(more[0] if more else {})})
    document: dict[str, Any] = {}
    if config is not None:
        document = {"schemaVersion": 2, "mediaType": DOCKER}
        document["config"] = {
            "mediaType": "application/vnd.docker.container.image.v1+json",
            **blobs.add(json.dumps(config).encode()),
        }
    return json.dumps({**document, "layers": layers, **extra}).encode()


def model(
    rows: Iterable[Row], config: Mapping[str, Any] | None = None, options: OllamaReadOptions | None = None, **extra: Any
) -> Model:
    """The model of a manifest with these rows."""
    blobs = Blobs()
    return read_ollama(manifest(blobs, rows, config, **extra), NAME, blobs, options or OllamaReadOptions())


def foreign(files: Mapping[str, bytes], **info: Any) -> Model:
    """A model that Ollama did not make."""
    roles = {True: Role.WEIGHT, False: Role.DOC}
    found = [ModelFile(path, roles[path.endswith(".gguf")], BytesContent(data)) for path, data in files.items()]
    return Model("folder", tuple(found), "folder:1", ModelInfo(**info))


def sink(
    name: str, source: Model, root: Path, *, complete: bool = True, rules: TargetRules = TargetRules(), **changes: Any
) -> OllamaSink:
    """A sink for a model as it would be stored."""
    stored = stored_of(source, complete=complete)
    fields = {key: getattr(stored, key) for key in ("format", "files", "complete", "identity", "info", "origin")}
    return OllamaSink(name, StoredModel(**{**fields, **changes}), WriteOptions(rules=rules), root)


def entry(path: str) -> FileEntry:
    return FileEntry(path, Role.WEIGHT)


def tree(root: Path) -> dict[str, bytes]:
    """Every file below a folder, the empty folders under a name with a slash at its end."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_file():
            found[name] = path.read_bytes()
        elif not any(path.iterdir()):
            found[name + "/"] = b""
    return found
