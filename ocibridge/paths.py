# SPDX-License-Identifier: Apache-2.0
"""Checks of the names of files inside a model.

Every name from an archive, a manifest or an annotation is checked before it is used.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

from .errors import FormatError

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_DRIVE = re.compile(r"[A-Za-z]:")
_ORDINARY = re.compile(r"[\w-][\w.-]*(?:/[\w-][\w.-]*)*", re.ASCII)
"""What nearly all names look like; none of them has a defect but for its length."""
MAX_PATH_BYTES = 4096


def show(name: str) -> str:
    """`name` quoted for a message: one line, printable, at most 120 characters."""
    text = name if len(name) <= 120 else name[:117] + "..."
    return repr(text)


def check_path(name: str, owner: str) -> str:
    """Return `name` if it is a plain relative path, else raise.

    Args:
        name: POSIX path of a file inside a model.
        owner: Description of the source of the name, for the message.

    Raises:
        FormatError: the name is empty, absolute, upward, has a drive, a backslash, a control character, an empty
            or dot part, is no valid Unicode, or is longer than 4096 bytes.
    """
    reason = None if len(name) <= MAX_PATH_BYTES and _ORDINARY.fullmatch(name) else _defect(name)
    if reason:
        raise FormatError(
            f"{owner}: the name {show(name)} {reason}",
            hint="such an archive is refused because it could write outside its folder or hide a file",
        )
    return name


def _defect(name: str) -> str | None:
    if not name:
        return "is empty"
    if _CONTROL.search(name):
        return "has a NUL or control character in it"
    if "\\" in name:
        return "has a backslash in it"
    if name.startswith("/"):
        return "is absolute"
    if _DRIVE.match(name):
        return "starts with a drive letter"
    parts = name.split("/")
    if ".." in parts:
        return "leaves the folder ('..')"
    if "" in parts or "." in parts:
        return "has an empty or '.' part"
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        return "is not valid Unicode"
    return "is longer than 4096 bytes" if length > MAX_PATH_BYTES else None


def check_collisions(names: Iterable[str], owner: str) -> None:
    """Refuse a set of checked names that cannot all exist in one folder on every file system.

    Raises:
        FormatError: two names are equal, differ only in case or Unicode form, or one is a folder of another.
    """
    every = list(names)
    keys = _folded(every)
    seen = dict(zip(keys, every, strict=True))
    if len(seen) < len(every):
        _refuse_twins(keys, every, owner)
    holding = {name.rpartition("/")[0]: name for name in every}
    holding.pop("", None)
    folders: dict[str, str] = {}
    for folder, name in holding.items():
        for parent in _parents(f"{folder}/"):
            key = _fold(parent)
            if key in seen:
                raise FormatError(
                    f"{owner}: {show(seen[key])} is both a file and a folder (of {show(name)})",
                    hint="rename one of the two and pack again",
                )
            spelled = folders.setdefault(key, parent)
            if spelled != parent:
                raise FormatError(
                    f"{owner}: the folders {show(spelled)} and {show(parent)} collide (case or Unicode form)",
                    hint="rename one of the two and pack again",
                )


def _refuse_twins(keys: Sequence[str], names: Sequence[str], owner: str) -> None:
    seen: dict[str, str] = {}
    for key, name in zip(keys, names, strict=True):
        if key in seen:
            other = seen[key]
            kind = "appears twice" if other == name else f"collides with {show(other)} (case or Unicode form)"
            raise FormatError(
                f"{owner}: the name {show(name)} {kind}",
                hint="rename one of the two and pack again; tools disagree about which of them counts",
            )
        seen[key] = name


def _folded(names: Sequence[str]) -> list[str]:
    """Apply `_fold` to all names; all plain names are folded in one step."""
    text = "\0".join(names)
    found = text.lower().split("\0") if text.isascii() else []
    return found if len(found) == len(names) else [_fold(name) for name in names]


def _fold(name: str) -> str:
    return (
        name.lower() if name.isascii() else unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold())
    )


def _parents(name: str) -> list[str]:
    found = []
    end = name.find("/")
    while end != -1:
        found.append(name[:end])
        end = name.find("/", end + 1)
    return found
