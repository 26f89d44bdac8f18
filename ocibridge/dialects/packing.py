# SPDX-License-Identifier: Apache-2.0
"""Group the files of a model into layers, and order the layers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..errors import FormatError, UsageError
from ..layers import Encoding, Layer
from ..model import ModelFile, Role
from ..paths import check_path
from ..settings import MAX_LAYERS, SMALL_FILE
from .choices import Compress, Layers

_TAR = {Compress.NONE: Encoding.TAR, Compress.GZIP: Encoding.TAR_GZIP, Compress.ZSTD: Encoding.TAR_ZSTD}

ROLE_ORDER = (Role.WEIGHT_CONFIG, Role.WEIGHT, Role.CODE, Role.DATASET, Role.DOC)
"""Metadata first, so that a reader knows what it pulls before the weights arrive."""


SHARING_ORDER = (Role.WEIGHT, Role.DATASET, Role.CODE, Role.WEIGHT_CONFIG, Role.DOC)
"""Whose layers are shared first where there would be too many; README and LICENSE stand alone for longest."""


class Packed(NamedTuple):
    """A layer and the role that its media type names."""

    role: Role
    layer: Layer


def pack(files: Sequence[ModelFile], layers: Layers, compress: Compress, max_layers: int = MAX_LAYERS) -> list[Packed]:
    """Distribute files over layers, deterministically.

    `tar`: each weight has a layer of its own, as seed 001 asks; README and LICENSE have one each, because registries
    show them only so; other files of `SMALL_FILE` bytes or more have one; what is left shares a layer per role. `raw`:
    the same, but weights are not wrapped in tar. `raw-files`: every file is a layer, in the model's own order.

    Where these would be more than `max_layers` tar layers, neighbours in the order of paths share one, weights first,
    as evenly by size as can be. Raw layers hold one file each whatever their number.

    Raises:
        UsageError: there are more roles than `max_layers`.
        FormatError: the model has no file, or a name that a container runtime would take for a whiteout.
    """
    if not files:
        raise FormatError("the model has no file", hint="check that the source is what you meant to push")
    for file in files:
        check_whiteout(file.path)
    if layers is Layers.RAW_FILES:
        return [Packed(file.role, Layer((file,), Encoding.RAW)) for file in files]
    groups = {}
    for role in ROLE_ORDER:
        members = [file for file in files if file.role is role]
        groups[role] = list(_groups(sorted(members, key=lambda file: file.path.encode())))
    raw = {Role.WEIGHT} if layers is Layers.RAW else set()
    _share(groups, [role for role in SHARING_ORDER if role not in raw], max_layers)
    return [
        Packed(role, Layer(group, Encoding.RAW if role in raw else _TAR[compress]))
        for role in ROLE_ORDER
        for group in groups[role]
    ]


def check_whiteout(path: str) -> None:
    """Refuse a name that container runtimes take for a whiteout (image-spec, layer.md, "Whiteouts").

    Raises:
        FormatError: it is one.
    """
    if "/.wh." in f"/{path}":
        raise FormatError(
            f"the file {path!r} has a name that container runtimes take for a deletion mark",
            hint="rename it before you push",
        )


def folder_prefix(text: str) -> str:
    """`models` or `models/` as the prefix of paths, `models/`; nothing where there is none.

    Raises:
        UsageError: it is no plain relative path.
    """
    if not text:
        return ""
    try:
        return check_path(text.removesuffix("/"), "--prefix") + "/"
    except FormatError as exc:
        raise UsageError(exc.message, hint="write the name of a folder, such as models/") from None


def under(files: Sequence[ModelFile], prefix: str) -> list[ModelFile]:
    """The files as they are called in a layer that has them all in the folder `prefix`."""
    if not prefix:
        return list(files)
    return [file._replace(path=check_path(prefix + file.path, "--prefix")) for file in files]


def _share(groups: dict[Role, list[tuple[ModelFile, ...]]], roles: Sequence[Role], most: int) -> None:
    """Make at most `most` groups of those of some roles."""
    excess = sum(len(groups[role]) for role in roles) - most
    for role in roles:
        count = len(groups[role])
        if excess <= 0 or not count:
            continue
        kept = max(1, count - excess)
        groups[role] = _joined(groups[role], kept)
        excess -= count - kept
    if excess > 0:
        needed = most + excess
        raise UsageError(
            f"the files have {needed} roles, which are {needed} layers, and no more than {most} are allowed",
            hint=f"give --max-layers {needed}, or more",
        )


def _joined(groups: Sequence[tuple[ModelFile, ...]], count: int) -> list[tuple[ModelFile, ...]]:
    """Neighbours joined to `count` groups, each as near to its share of the bytes that are left as may be."""
    sizes = [sum(file.size for file in group) for group in groups]
    found = []
    at, left = 0, sum(sizes)
    for parts in range(count, 0, -1):
        start, size = at, 0
        while len(groups) - at >= parts and (at == start or (2 * size + sizes[at]) * parts <= 2 * left):
            size += sizes[at]
            at += 1
        found.append(tuple(file for group in groups[start:at] for file in group))
        left -= size
    return found


def _groups(members: Sequence[ModelFile]) -> Iterator[tuple[ModelFile, ...]]:
    alone = [_alone(file) for file in members]
    shared = tuple(file for file, each in zip(members, alone, strict=True) if not each)
    if shared:
        yield shared
    for file, each in zip(members, alone, strict=True):
        if each:
            yield (file,)


def _alone(file: ModelFile) -> bool:
    return file.role is Role.WEIGHT or file.size >= SMALL_FILE or (file.role is Role.DOC and _is_shown(file.path))


def _is_shown(path: str) -> bool:
    return path.rpartition("/")[2].upper().split(".")[0] in ("README", "LICENSE")
