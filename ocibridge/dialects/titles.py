# SPDX-License-Identifier: Apache-2.0
"""Titles of layers: the names under which generic clients such as oras, and CRI-O, write a blob to disk as it is."""

from __future__ import annotations

from collections.abc import Sequence

from ..layers import Encoding
from ..oci.manifest import ANNOTATION_TITLE
from .base import FinishedLayer


def titles(layers: Sequence[FinishedLayer]) -> list[str]:
    """Name each blob for what it is: a raw layer by the path of its file, a tar by that path, or its role, and `.tar`.

    No two are the same whatever the case of their letters, and none is a folder of another. A title that a layer was
    published with is kept.
    """
    fixed = [_fixed(layer) for layer in layers]
    paths = [*filter(None, fixed), *(layer.files[0].path for layer in layers if len(layer.files) == 1)]
    folders = {folder for path in paths for folder in _folders(path.lower())}
    taken = {title.lower() for title in fixed if title} | folders
    found = []
    for layer, title in zip(layers, fixed, strict=True):
        name = title or _free(layer, taken)
        taken.add(name.lower())
        found.append(name)
    return found


def _fixed(layer: FinishedLayer) -> str | None:
    if ANNOTATION_TITLE in layer.kept:
        return layer.kept[ANNOTATION_TITLE]
    return layer.files[0].path if layer.encoding is Encoding.RAW else None


def _free(layer: FinishedLayer, taken: set[str]) -> str:
    stem = layer.files[0].path if len(layer.files) == 1 else layer.role.value
    suffix = "." + layer.encoding.value.replace("+gzip", ".gz").replace("+zstd", ".zst")
    name, number = stem + suffix, 1
    while name.lower() in taken:
        number += 1
        name = f"{stem}-{number}{suffix}"
    return name


def _folders(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]
