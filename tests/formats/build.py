# SPDX-License-Identifier: Apache-2.0
"""Builds zip archives and cartons byte by byte, right or wrong."""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import zstandard

from ocibridge.formats.base import Sink
from ocibridge.io.content import read_all
from ocibridge.model import FileEntry, Model, StoredModel

TOML = b"""spec_version = 1
[runner]
runner_name = "noop"
required_framework_version = "*"
runner_compat_version = 1
"""
INDEX = b"tensor = []\n"
SYMLINK = 0o120777 << 16
REGULAR = 0o100644 << 16


@dataclass
class Raw:
    """One member; what is None follows from the rest."""

    name: bytes
    data: bytes = b""
    method: int = 0
    flags: int = 0
    attr: int = REGULAR
    system: int = 3
    size: int | None = None
    crc: int | None = None
    packed: bytes | None = None
    local_name: bytes | None = None
    local_method: int | None = None
    local_crc: int | None = None
    descriptor: bool = False
    extra: bytes = b""
    offset: int | None = None
    disk: int = 0

    def body(self) -> bytes:
        if self.packed is not None:
            return self.packed
        if self.method == 8:
            encoder = zlib.compressobj(9, zlib.DEFLATED, -15)
            return encoder.compress(self.data) + encoder.flush()
        return zstandard.ZstdCompressor().compress(self.data) if self.method == 93 else self.data


def raw_zip(members: Iterable[Raw], *, comment: bytes = b"", **end: int) -> bytes:
    """A zip archive; `end` replaces fields of the end record (disk, count, size, offset)."""
    body = b""
    directory = b""
    count = 0
    for member in members:
        packed = member.body()
        size = len(member.data) if member.size is None else member.size
        crc = zlib.crc32(member.data) if member.crc is None else member.crc
        flags = member.flags | (8 if member.descriptor else 0)
        seen = (
            (0, 0, 0)
            if member.descriptor
            else (crc if member.local_crc is None else member.local_crc, len(packed), size)
        )
        name = member.name if member.local_name is None else member.local_name
        method = member.method if member.local_method is None else member.local_method
        offset = len(body) if member.offset is None else member.offset
        body += struct.pack("<4s5H3L2H", b"PK\3\4", 20, flags, method, 0, 0, *seen, len(name), 0) + name + packed
        if member.descriptor:
            body += struct.pack("<4s3L", b"PK\7\x08", crc, len(packed), size)
        directory += struct.pack(
            "<4s2B5H3L5H2L",
            *(b"PK\1\2", 20, member.system, 20, flags, member.method, 0, 0, crc, len(packed), size),
            *(len(member.name), len(member.extra), 0, member.disk, 0, member.attr, offset),
        )
        directory += member.name + member.extra
        count += 1
    disk, count = end.get("disk", 0), end.get("count", count)
    size, offset = end.get("size", len(directory)), end.get("offset", len(body))
    return (
        body
        + directory
        + struct.pack("<4s4H2LH", b"PK\5\6", disk, 0, count, count, size, offset, len(comment))
        + comment
    )


def manifest_of(files: Mapping[str, bytes]) -> bytes:
    return "".join(f"{path}={hashlib.sha256(files[path]).hexdigest()}\n" for path in sorted(files)).encode()


def whole(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """`files` with what each carton has, unless given."""
    return {"carton.toml": TOML, "tensor_data/index.toml": INDEX, **files}


def carton(
    path: Path,
    files: Mapping[str, bytes] | None = None,
    *,
    manifest: bytes | None = None,
    extra: Iterable[Raw] = (),
    without: Iterable[str] = (),
    complete: bool = True,
) -> Path:
    """A `.carton` file with `files`, their MANIFEST and `extra` members."""
    files = whole(files or {}) if complete else dict(files or {})
    rows = manifest_of(files) if manifest is None else manifest
    members = [Raw(name.encode(), data) for name, data in files.items() if name not in set(without)]
    path.write_bytes(raw_zip([*members, *extra, Raw(b"MANIFEST", rows)]))
    return path


def stored_of(model: Model, *, complete: bool = True) -> StoredModel:
    files = tuple(FileEntry(f.path, f.role, f.size, f.sha256, f.symlink) for f in model.files)
    return StoredModel(model.format, files, complete, model.identity, model.info, model.origin)


def fill(sink: Sink, model: Model) -> str | None:
    """Write all of `model` and commit."""
    with sink:
        for file in model.files:
            with file.content.open() as reader:
                sink.write(file.path, file.size, reader)
        return sink.commit()


def contents(model: Model) -> dict[str, bytes]:
    """Every byte of a model, checked against the sha256 it promises."""
    found = {}
    for file in model.files:
        found[file.path] = read_all(file.content)
        assert len(found[file.path]) == file.size
        assert file.sha256 in (None, hashlib.sha256(found[file.path]).hexdigest())
    return found
