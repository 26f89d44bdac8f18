# SPDX-License-Identifier: Apache-2.0
"""Reading and writing TorchServe model archives: zip files with `MAR-INF/MANIFEST.json`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ocibridge.errors import FormatError, IntegrityError
from ocibridge.formats.base import Sink
from ocibridge.formats.check import CheckSink
from ocibridge.formats.foldersink import FolderSink, check_stored
from ocibridge.formats.zip import MemberContent, ZipWriter, check_names, read_directory
from ocibridge.io.content import Content, FileContent, read_all
from ocibridge.io.marker import is_own_name
from ocibridge.io.readers import Reader, chunks
from ocibridge.io.staging import Staging
from ocibridge.model import Model, ModelFile, ModelInfo, Role, StoredModel
from ocibridge.oci import Descriptor, Manifest

from . import MANIFEST, MarReadOptions, MarWriteOptions


def read_mar(path: Path, options: MarReadOptions) -> Model:
    """An archive, or the folder that it unpacks to, as a model; every member is read once, for the identity."""
    found = dict(_folder(path) if path.is_dir() else _archive(path, options))
    if MANIFEST not in found:
        raise FormatError(f"{path} has no {MANIFEST}", hint="pack the model with torch-model-archiver")
    manifest = _manifest(read_all(found[MANIFEST]), str(path))
    hashes = {name: _sha256(content) for name, content in found.items()}
    weights = {manifest.get("serializedFile")}
    files = (ModelFile(name, _role(name, weights), found[name], hashes[name]) for name in sorted(found))
    return Model(
        format="mar",
        files=tuple(files),
        identity=identity_of(hashes),
        info=ModelInfo(name=manifest["modelName"], version=options.mar_version or manifest.get("modelVersion")),
        origin={"mar.handler": manifest["handler"]} if "handler" in manifest else {},
    )


def identity_of(hashes: Mapping[str, str]) -> str:
    """What a round trip keeps: name and sha256 of every member, in whatever order and however compressed."""
    listing = "".join(f"{hashes[name]}  {name}\n" for name in sorted(hashes))
    return f"mar:{hashlib.sha256(listing.encode()).hexdigest()}"


def members_manifest(model: Model) -> bytes:
    """A manifest of OCI whose config is the manifest of the archive, and whose layers are the other members."""
    blobs = [
        Descriptor(media_type="application/octet-stream", digest=f"sha256:{each.sha256}", size=each.content.size)
        for each in sorted(model.files, key=lambda each: (each.path != MANIFEST, each.path))
    ]
    return Manifest(config=blobs[0], layers=blobs[1:]).to_json()


def _archive(path: Path, options: MarReadOptions) -> Iterator[tuple[str, Content]]:
    members = read_directory(path, options.limits)
    check_names(members, str(path))
    return ((each.name, MemberContent(path, each, options.limits)) for each in members if not each.is_dir)


def _folder(path: Path) -> Iterator[tuple[str, Content]]:
    files = (each for each in path.rglob("*") if each.is_file() and not is_own_name(each.name, folder=False))
    return ((each.relative_to(path).as_posix(), FileContent(each)) for each in files)


def _manifest(data: bytes, owner: str) -> dict[str, Any]:
    try:
        model = json.loads(data)["model"]
        return {"modelName": str(model["modelName"]), **{key: str(value) for key, value in model.items()}}
    except (ValueError, KeyError, TypeError):
        raise FormatError(f"{owner}: {MANIFEST} names no model", hint="pack it with torch-model-archiver") from None


def _role(name: str, weights: set[str | None]) -> Role:
    if name in weights:
        return Role.WEIGHT
    if name.endswith(".py"):
        return Role.CODE
    return Role.DOC if name.upper().startswith(("README", "LICENSE")) else Role.WEIGHT_CONFIG


def _sha256(content: Content) -> str:
    digest = hashlib.sha256()
    with content.open() as reader:
        for piece in chunks(reader):
            digest.update(piece)
    return digest.hexdigest()


def proven(hashes: Mapping[str, str], stored: StoredModel) -> str:
    """The identity of what has arrived, if it is the one that was published."""
    if MANIFEST not in hashes:
        raise FormatError(f"no {MANIFEST} arrived, so it is no TorchServe archive", hint="pull it as a folder")
    found = identity_of(hashes)
    if stored.format == "mar" and stored.identity not in (None, found):
        raise IntegrityError(f"this would be {found}, but {stored.identity} was published", hint="publish it again")
    return found


class MarSink(Sink):
    """Writes an archive."""

    def __init__(self, dest: Path, stored: StoredModel, options: MarWriteOptions) -> None:
        if stored.complete and MANIFEST not in {each.path for each in stored.files}:
            raise FormatError(f"cannot write {dest}: the model has no {MANIFEST}", hint="pull it as a folder")
        check_stored(stored, str(dest))
        self._stored, self._method = stored, options.zip_method
        self._hashes: dict[str, str] = {}
        self._staging = Staging(dest, suffix=".part", rules=options.rules)
        self._zip = ZipWriter(self._staging.temp, label=str(dest))

    def write(self, path: str, size: int, reader: Reader, sha256: str | None = None) -> None:
        """Append a member."""
        digest = hashlib.sha256()

        def pieces() -> Iterator[memoryview]:
            for piece in chunks(reader):
                digest.update(piece)
                yield piece

        self._zip.append(path, size, pieces(), self._method)
        self._hashes[path] = digest.hexdigest()

    def commit(self) -> str:
        """Prove the identity, and give the archive its name."""
        identity = proven(self._hashes, self._stored)
        self._zip.finish()
        self._zip.close()
        self._staging.publish_file(identity)
        return identity

    def abort(self) -> None:
        """Remove what was written."""
        self._zip.close()
        self._staging.discard()


class MarFolderSink(FolderSink):
    """Writes the folder that an archive unpacks to."""

    proves = True

    def __init__(self, dest: Path, stored: StoredModel, options: MarWriteOptions) -> None:
        super().__init__(dest, stored, options)
        self._stored = stored

    def check(self) -> str:
        """Prove the identity."""
        return proven(self.hashes, self._stored)


class MarCheckSink(CheckSink):
    """Reads an archive in a store, and proves its identity."""

    def __init__(self, stored: StoredModel) -> None:
        super().__init__(stored)
        self._stored = stored

    def commit(self) -> str:
        """Prove the identity."""
        return proven(self.hashes, self._stored)
