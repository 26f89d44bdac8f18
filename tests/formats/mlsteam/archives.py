# SPDX-License-Identifier: Apache-2.0
"""Builds MLSteam archives, right or wrong."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ocibridge.formats.base import ReadOptions, Sink
from ocibridge.formats.mlsteam import MlsteamFormat
from ocibridge.formats.mlsteam.options import MlsteamWriteOptions
from ocibridge.formats.mlsteam.skeleton import SKELETON
from ocibridge.model import Model, ModelFile

from ..build import Raw, fill, raw_zip, stored_of

FIXTURES = Path(__file__).parents[2] / "fixtures"
GENUINE = ("digits.mlarchive", "digits-2024.mlarchive", "digits-encrypted.mlarchive")
PLAIN = GENUINE[:2]
FORMAT = MlsteamFormat()
V2023: dict[str, Any] = {"models": [{"name": "m", "version": "1", "framework": "pytorch"}]}
V2024: dict[str, Any] = {"schema": "v2024.1", "name": "m", "version": "1", "models": [{"name": "m", "version": "1"}]}
MANIFEST = json.dumps(V2023).encode()
WORDS = b"".join(b"%d bottles of beer on the wall, " % (number * number % 997) for number in range(4000))


def archive(path: Path, members: Mapping[str, bytes] | Iterable[Raw], comment: bytes = b"") -> Path:
    """An archive of `members`; of a mapping with a manifest, unless it has one."""
    if isinstance(members, Mapping):
        members = [Raw(name.encode(), data) for name, data in {"manifest.json": MANIFEST, **members}.items()]
    path.write_bytes(raw_zip(members, comment=comment))
    return path


def with_manifest(path: Path, manifest: object) -> Path:
    data = manifest if isinstance(manifest, bytes) else json.dumps(manifest).encode()
    return archive(path, {"manifest.json": data, "models/a.bin": b"1"})


def zipped(path: Path, members: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED, level: int = 6) -> Path:
    """An archive as Python's zipfile writes it."""
    with zipfile.ZipFile(path, "w", method, compresslevel=level) as target:
        for name, data in {"manifest.json": MANIFEST, **members}.items():
            target.writestr(name, data)
    return path


def read(path: Path, *, keep: bool = False) -> Model:
    return FORMAT.read(path, ReadOptions(exact=keep))


def sink(dest: Path, model: Model, options: MlsteamWriteOptions | None = None) -> Sink:
    return FORMAT.sink(dest, stored_of(model), options or MlsteamWriteOptions())


def back(model: Model, dest: Path) -> str | None:
    """Write `model` to `dest`; the note of the sink."""
    target = sink(dest, model)
    assert fill(target, model) == model.identity
    return target.note


def without_skeleton(model: Model) -> tuple[ModelFile, ...]:
    return tuple(file for file in model.files if file.path != SKELETON)


class Unseekable(io.RawIOBase):
    """Makes zipfile write data descriptors."""

    def __init__(self) -> None:
        self.data = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self.data += data
        return len(data)


def cell(message: bytes, *, algorithm: bytes = b"\x00\x01\x01\x40", extra: int = 0) -> bytes:
    """One cell of an encrypted package."""
    body = algorithm + struct.pack("<3L", 12, 16, len(message)) + bytes(12 + 16 + extra) + message
    return struct.pack("<Q", len(body)) + body
