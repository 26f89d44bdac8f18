# SPDX-License-Identifier: Apache-2.0
"""A carton of about 300 MB that is made in a second, and what must be in every copy of it."""

from __future__ import annotations

import hashlib
import random
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from ocibridge.settings import KiB, MiB

from ..formats.build import INDEX, TOML
from ..trees import paths_in

_BLOCK = 4 * MiB
WEIGHTS = {f"model/model-{number}.pt": size * MiB for number, size in enumerate((40, 40, 40, 40, 40, 97))}
SMALL = {f"model/extra/{number:03}.json": number * 37 % (24 * KiB) for number in range(200)}
SIZE = sum(WEIGHTS.values()) + sum(SMALL.values())


def make_carton(path: Path) -> dict[str, str]:
    """Write the carton; the hex sha256 of each of its files."""
    noise = random.Random(1)
    hashes = {}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, size in {**WEIGHTS, **SMALL}.items():
            digest = hashlib.sha256()
            with archive.open(zipfile.ZipInfo(name), "w") as member:
                for piece in _pieces(noise, size):
                    digest.update(piece)
                    member.write(piece)
            hashes[name] = digest.hexdigest()
        for name, data in {"carton.toml": TOML, "tensor_data/index.toml": INDEX}.items():
            archive.writestr(name, data)
            hashes[name] = hashlib.sha256(data).hexdigest()
        manifest = "".join(f"{name}={hashes[name]}\n" for name in sorted(hashes)).encode()
        archive.writestr("MANIFEST", manifest)
    return {**hashes, "MANIFEST": hashlib.sha256(manifest).hexdigest()}


def _pieces(noise: random.Random, size: int) -> Iterator[bytes]:
    """Bytes that do not compress, of which no two blocks are alike."""
    block = noise.randbytes(min(size, _BLOCK))
    for start in range(0, size, _BLOCK):
        yield (start.to_bytes(8, "big") + block)[: min(_BLOCK, size - start)]


def unpack(carton: Path, folder: Path) -> None:
    """The same as a folder."""
    with zipfile.ZipFile(carton) as archive:
        archive.extractall(folder)


def check_copy(copy: Path, hashes: Mapping[str, str]) -> None:
    """Whether a carton or a folder has exactly these files."""
    if copy.is_dir():
        found = {path.relative_to(copy).as_posix(): path for path in paths_in(copy) if path.is_file()}
        assert {name: _sha256(path.open("rb")) for name, path in found.items()} == hashes
        return
    with zipfile.ZipFile(copy) as archive:
        assert {name: _sha256(archive.open(name)) for name in archive.namelist()} == hashes


def _sha256(file: object) -> str:
    digest = hashlib.sha256()
    with file:  # type: ignore[attr-defined]
        while piece := file.read(MiB):  # type: ignore[attr-defined]
            digest.update(piece)
    return digest.hexdigest()
