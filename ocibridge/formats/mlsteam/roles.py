# SPDX-License-Identifier: Apache-2.0
"""Roles of the members of an MLSteam archive."""

from __future__ import annotations

from pathlib import PurePosixPath

from ...model import Role
from ...settings import SMALL_FILE
from .manifest import MANIFEST

_CONFIG = frozenset((".json", ".txt", ".yaml", ".yml"))
_VOCABULARIES = ("vocab", "tokenizer", "merges")
_DOCS = ("README", "LICENSE", "LICENCE", "NOTICE")


def role_of(path: str, size: int) -> tuple[Role, bool]:
    """The role of the member `path` of `size` bytes, and whether it is a guess.

    The folders of the specification decide (seed 002, "Internal directory structure"; `src/` is the SDK's), then the
    name.
    """
    name = PurePosixPath(path)
    if path == MANIFEST:
        return Role.WEIGHT_CONFIG, False
    if path.startswith(("hooks/", "src/")):
        return Role.CODE, False
    if name.suffix.lower() == ".md" or name.name.upper().startswith(_DOCS):
        return Role.DOC, False
    if not path.startswith("models/"):
        return Role.WEIGHT_CONFIG, True
    small = size < SMALL_FILE and (name.suffix.lower() in _CONFIG or name.name.lower().startswith(_VOCABULARIES))
    return (Role.WEIGHT_CONFIG if small else Role.WEIGHT), False
