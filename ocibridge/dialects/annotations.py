# SPDX-License-Identifier: Apache-2.0
"""Annotation keys and the documents inside annotation values (docs/formats/annotations.md lists them all)."""

from __future__ import annotations

import json
from typing import Any

from pydantic import Field, RootModel, ValidationError

from ..errors import FormatError
from ..layers import Layer, LayerDigests
from ..model import FileEntry, Role
from ..oci import Document, canonical_json
from ..oci.digest import SHA256
from ..oci.document import first_problem
from ..paths import check_path

OURS = "org.ocibridge."
FORMAT = OURS + "format"
IDENTITY = OURS + "identity"
FILES = OURS + "files"
SYMLINKS = OURS + "symlinks"

EPOCH = "1970-01-01T00:00:00Z"


class FileMetadata(Document):
    """Value of `file.metadata+json` (model-spec docs/annotations.md); field order of the Go type."""

    name: str
    mode: int = 0o644
    uid: int = 0
    gid: int = 0
    size: int
    mtime: str = EPOCH
    typeflag: int = 0


class ListedFile(Document):
    """One row of our listing of a layer's files.

    Attributes:
        path: Path inside the model.
        size: Length in bytes.
        sha256: Hex sha256 of the file's own bytes.
    """

    path: str
    size: int = Field(ge=0)
    sha256: str = Field(pattern=f"^{SHA256.pattern}$")


class FileListing(RootModel[list[ListedFile]]):
    """Value of `org.ocibridge.files`: the files of a layer, in the order of the layer."""


def listing(layer: Layer, digests: LayerDigests) -> str:
    """The value of `org.ocibridge.files` for a layer."""
    rows = [
        ListedFile(path=file.path, size=file.size, sha256=sha256)
        for file, sha256 in zip(layer.files, digests.files, strict=True)
    ]
    rows.sort(key=lambda row: row.path.encode())
    return canonical_json([row.model_dump(exclude_none=True) for row in rows]).decode()


def parse_listing(value: str, role: Role, owner: str) -> tuple[FileEntry, ...]:
    """Read a value of `org.ocibridge.files`.

    Raises:
        FormatError: it is malformed, or has an unsafe path.
    """
    try:
        rows = FileListing.model_validate_json(value, strict=True).root
    except ValidationError as exc:
        raise FormatError(f"{owner}: the annotation {FILES} is not valid: {first_problem(exc)}") from None
    return tuple(FileEntry(check_path(row.path, owner), role, row.size, row.sha256) for row in rows)


class Symlinks(RootModel[dict[str, str]]):
    """Value of `org.ocibridge.symlinks`: path of each file that is a symlink in the source, and its target."""


def parse_symlinks(value: str | None, owner: str) -> dict[str, str]:
    """Read a value of `org.ocibridge.symlinks`.

    Raises:
        FormatError: it is malformed, or has an unsafe path.
    """
    try:
        found = Symlinks.model_validate_json(value or "{}", strict=True).root
    except ValidationError as exc:
        raise FormatError(f"{owner}: the annotation {SYMLINKS} is not valid: {first_problem(exc)}") from None
    return {check_path(path, owner): target for path, target in found.items()}


def file_size(value: str | None) -> int | None:
    """The size in a value of `file.metadata+json`, or None; other tools' spellings are read leniently."""
    try:
        document: Any = json.loads(value or "null")
    except (ValueError, RecursionError):
        return None
    size = document.get("size") if isinstance(document, dict) else None
    return size if isinstance(size, int) and not isinstance(size, bool) and size >= 0 else None
