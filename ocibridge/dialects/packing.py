# SPDX-License-Identifier: Apache-2.0
"""Which files share a layer, and in which order the layers stand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from ..errors import FormatError
from ..layers import Encoding, Layer
from ..model import ModelFile, Role
from ..settings import SMALL_FILE


class Layers(str, Enum):
    """How files become layers (`--layers`)."""

    TAR = "tar"
    RAW = "raw"
    RAW_FILES = "raw-files"


class Compress(str, Enum):
    """How tar layers are compressed (`--compress`)."""

    NONE = "none"
    GZIP = "gzip"
    ZSTD = "zstd"


_TAR = {Compress.NONE: Encoding.TAR, Compress.GZIP: Encoding.TAR_GZIP, Compress.ZSTD: Encoding.TAR_ZSTD}

ROLE_ORDER = (Role.WEIGHT_CONFIG, Role.WEIGHT, Role.CODE, Role.DATASET, Role.DOC)
"""Metadata first, so that a reader knows what it pulls before the weights arrive."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A layer and the role that its media type names."""

    role: Role
    layer: Layer


def pack(files: Sequence[ModelFile], layers: Layers, compress: Compress) -> list[Packed]:
    """Distribute files over layers, deterministically.

    `tar`: each weight has a layer of its own, as seed 001 asks; README and LICENSE have one each, because registries
    show them only so; other files of `SMALL_FILE` bytes or more have one; what is left shares a layer per role. `raw`:
    the same, but weights are not wrapped in tar. `raw-files`: every file is a layer, in the model's own order.

    Raises:
        FormatError: the model has no file, or a name that a container runtime would take for a whiteout.
    """
    if not files:
        raise FormatError("the model has no file", hint="check that the source is what you meant to push")
    for file in files:
        if any(part.startswith(".wh.") for part in file.path.split("/")):
            raise FormatError(
                f"the file {file.path!r} has a name that container runtimes take for a deletion mark",
                hint="rename it before you push",
            )
    if layers is Layers.RAW_FILES:
        return [Packed(file.role, Layer((file,), Encoding.RAW)) for file in files]
    found = []
    for role in ROLE_ORDER:
        members = sorted((file for file in files if file.role is role), key=lambda file: file.path.encode())
        for group in _groups(members):
            raw = layers is Layers.RAW and role is Role.WEIGHT
            found.append(Packed(role, Layer(group, Encoding.RAW if raw else _TAR[compress])))
    return found


def _groups(members: Sequence[ModelFile]) -> Iterator[tuple[ModelFile, ...]]:
    shared = tuple(file for file in members if not _alone(file))
    if shared:
        yield shared
    for file in members:
        if _alone(file):
            yield (file,)


def _alone(file: ModelFile) -> bool:
    name = file.path.rpartition("/")[2].upper()
    shown = file.role is Role.DOC and name.split(".")[0] in ("README", "LICENSE")
    return file.role is Role.WEIGHT or file.size >= SMALL_FILE or shown
