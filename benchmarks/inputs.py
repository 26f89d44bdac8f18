# SPDX-License-Identifier: Apache-2.0
"""What is pushed and pulled: cartons with large weights, and a folder of many small files."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ocibridge.settings import KiB, MiB

SMALL = 4 * KiB
"""Bytes of a small file."""
BLOCK = 8 * MiB
STORED = Path(__file__).parent.parent / "tests" / "fixtures" / "digits-stored.carton"


@dataclass(frozen=True)
class Blob:
    """A file with the bytes of a blob, and its digest."""

    path: Path
    digest: str


def make_carton(path: Path, sizes: Sequence[int]) -> None:
    """A Stored carton with a weight of each of `sizes` bytes, no two of their 8 MiB blocks alike."""
    with zipfile.ZipFile(STORED) as digits:
        members = {"carton.toml": digits.read("carton.toml"), "tensor_data/index.toml": b"tensor = []\n"}
    rows = {name: hashlib.sha256(data).hexdigest() for name, data in members.items()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for number, size in enumerate(sizes, 1):
            name = f"model/model-{number:05}.pt"
            digest = hashlib.sha256()
            with archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as weight:
                for piece in _blocks(size):
                    digest.update(piece)
                    weight.write(piece)
            rows[name] = digest.hexdigest()
        members["MANIFEST"] = "".join(f"{name}={rows[name]}\n" for name in sorted(rows)).encode()
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data)


def _blocks(size: int) -> Iterator[bytes]:
    block = os.urandom(BLOCK)
    for start in range(0, size, BLOCK):
        yield (start.to_bytes(8, "big") + block)[: min(BLOCK, size - start)]


def make_files(folder: Path, count: int) -> None:
    """`count` JSON files of `SMALL` bytes in folders of a hundred, no two alike; gzip halves them."""
    for number in range(count):
        place = folder / f"{number // 100:04}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number % 100:02}.json").write_bytes(small_file(number))


def small_file(number: int) -> bytes:
    """The small file of that number."""
    digits = hashlib.shake_256(number.to_bytes(8, "big")).hexdigest(SMALL // 2)
    return b'{"data":"' + digits[: SMALL - 12].encode() + b'"}\n'


def blobs_of(layout: Path, count: int) -> tuple[Blob, ...]:
    """The `count` largest layers of the only artifact in an OCI layout."""
    index = json.loads((layout / "index.json").read_bytes())
    manifest = json.loads(_blob(layout, index["manifests"][0]["digest"]).read_bytes())
    layers = sorted(manifest["layers"], key=lambda layer: -int(layer["size"]))
    return tuple(Blob(_blob(layout, layer["digest"]), layer["digest"]) for layer in layers[:count])


def _blob(layout: Path, digest: str) -> Path:
    return layout / "blobs" / "sha256" / digest.removeprefix("sha256:")
