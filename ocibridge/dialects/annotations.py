# SPDX-License-Identifier: Apache-2.0
"""Annotation keys and the documents inside annotation values (docs/formats/annotations.md lists them all)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from ..errors import FormatError, UsageError
from ..layers import Encoding, StoredLayer
from ..model import FileEntry, Role
from ..oci import Document, canonical_json
from ..oci import manifest as oci
from ..oci.document import first_problem
from ..paths import check_path, show

OURS = "org.ocibridge."
FORMAT = OURS + "format"
IDENTITY = OURS + "identity"
FILES = OURS + "files"
SYMLINKS = OURS + "symlinks"
ROLE = OURS + "role"
INFO = OURS + "info"
PREFIX = OURS + "prefix"
COMPANION = OURS + "sibling"  # the key is part of published digests

SPECIFIED = ("org.cnai.model.", "org.cncf.model.")
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


def refuse_reserved(annotations: Mapping[str, str]) -> None:
    """Refuse annotations of a user that ocibridge reads, and so writes itself.

    Raises:
        UsageError: there is one.
    """
    for key in annotations:
        if key.startswith((OURS, *SPECIFIED)):
            raise UsageError(f"the annotation {show(key)} is written by ocibridge itself", hint="leave it out")
        if key == oci.ANNOTATION_CREATED:
            raise UsageError(f"the annotation {show(key)} is written by --created", hint="give --created TIME instead")


def listing(files: Sequence[FileEntry]) -> str | None:
    """The value of `org.ocibridge.files`, or None where size or sha256 of a file is not known."""
    if not files or any(file.size is None or file.sha256 is None for file in files):
        return None
    rows = [
        {"path": file.path, "size": file.size, "sha256": file.sha256}
        for file in sorted(files, key=lambda file: file.path.encode())
    ]
    return canonical_json(rows).decode()


def parse_listing(value: str, role: Role, owner: str) -> tuple[FileEntry, ...]:
    """Read a value of `org.ocibridge.files`.

    Raises:
        FormatError: it is malformed, or has an unsafe path.
    """
    from .listings import FileListing  # a push reads none

    try:
        rows = FileListing.model_validate_json(value, strict=True).root
    except ValidationError as exc:
        raise FormatError(f"{owner}: the annotation {FILES} is not valid: {first_problem(exc)}") from None
    return tuple(FileEntry(check_path(row["path"], owner), role, row["size"], row["sha256"]) for row in rows)


def parse_symlinks(value: str | None, owner: str) -> dict[str, str]:
    """Read a value of `org.ocibridge.symlinks`.

    Raises:
        FormatError: it is malformed, or has an unsafe path.
    """
    if not value:
        return {}
    from .listings import Symlinks

    try:
        found = Symlinks.model_validate_json(value, strict=True).root
    except ValidationError as exc:
        raise FormatError(f"{owner}: the annotation {SYMLINKS} is not valid: {first_problem(exc)}") from None
    return {check_path(path, owner): target for path, target in found.items()}


def parse_prefix(value: str | None, owner: str) -> str:
    """Read a value of `org.ocibridge.prefix`: a folder with the slash after it; nothing where there is none.

    Raises:
        FormatError: it is malformed, or an unsafe path.
    """
    if not value:
        return ""
    if not value.endswith("/"):
        raise FormatError(f"{owner}: the annotation {PREFIX} is not valid: {show(value)} does not end with '/'")
    check_path(value[:-1], owner)
    return value


def file_size(value: str | None) -> int | None:
    """The size in a value of `file.metadata+json`, or None; other tools' spellings are read leniently."""
    try:
        document: Any = json.loads(value or "null")
    except (ValueError, RecursionError):
        return None
    size = document.get("size") if isinstance(document, dict) else None
    return size if isinstance(size, int) and not isinstance(size, bool) and size >= 0 else None


_PER_LAYER = (FILES, ROLE)
_ANEW = ("filepath", "file.mediatype.untested", "model", "config", "readme", "license")


def kept(layer: StoredLayer, prefix: str, before: str) -> dict[str, str]:
    """Annotations of a layer that no dialect writes anew, such as the file metadata of the tool that made it.

    The title of a tar is kept unless it is the path of the file in it, which is what ocibridge used to write.

    Args:
        layer: The layer.
        prefix: Prefix of the keys of the specification in the dialect that is written.
        before: That of the dialect that the layer is in.
    """
    annotations = layer.descriptor.annotations or {}
    path = None if layer.encoding is Encoding.RAW else file_path(annotations, layer.descriptor.digest)
    found = {}
    for key, value in annotations.items():
        name = next((key.removeprefix(each) for each in (*SPECIFIED, before) if key.startswith(each)), None)
        if (key, value) == (oci.ANNOTATION_TITLE, path):
            continue
        if name is None and not key.startswith(OURS):
            found[key] = value
        elif name and name not in _ANEW:
            found[prefix + name] = value
    return found


def file_origin(layer: StoredLayer) -> dict[str, str]:
    """Read the `origin` of the single file of a layer; see `ocibridge.model.ModelFile.origin`."""
    return {
        key.removeprefix(OURS): value
        for key, value in (layer.descriptor.annotations or {}).items()
        if key.startswith(OURS) and key not in _PER_LAYER
    }


def guessed(layer: StoredLayer) -> bool:
    """Return whether a layer is marked as a guess."""
    found = layer.descriptor.annotations or {}
    return any(found.get(prefix + "file.mediatype.untested") == "true" for prefix in SPECIFIED)


def file_path(annotations: Mapping[str, str], owner: str) -> str | None:
    """The path of a layer of one file, in either namespace; a title names the blob, which may be a tar.

    Raises:
        FormatError: there are two that differ, or it is unsafe.
    """
    given = {annotations[key] for prefix in SPECIFIED if (key := prefix + "filepath") in annotations}
    if len(given) > 1:
        raise FormatError(f"{owner} has two paths, {' and '.join(sorted(map(show, given)))}")
    return check_path(given.pop(), owner) if given else None


def named_file(layer: StoredLayer) -> tuple[FileEntry, ...]:
    """The one file that the annotations of a tar layer of another tool name, if they do."""
    annotations = layer.descriptor.annotations or {}
    path = file_path(annotations, layer.descriptor.digest)
    return () if path is None else (FileEntry(path, layer.role),)


def plain_diff_id(layer: StoredLayer) -> str:
    """The diff id of a layer whose config does not give it.

    Raises:
        FormatError: the layer is compressed, so that only its bytes could tell.
    """
    if layer.encoding in (Encoding.TAR_GZIP, Encoding.TAR_ZSTD):
        raise FormatError(
            f"the config gives no diff id for the compressed layer {layer.descriptor.digest}",
            hint="pull the model and push it again in the dialect wanted",
        )
    return layer.descriptor.digest
