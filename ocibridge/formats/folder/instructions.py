# SPDX-License-Identifier: Apache-2.0
"""Read `.ocibridge.toml` and `.ocibridgeignore` of a folder."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...errors import FormatError, LimitError, reading
from ...io.content import FileContent, read_all
from ...settings import Limits
from .ignore import DEFAULT_IGNORES, IGNORE_FILE, Ignores, parse_patterns, split_lines
from .roles import Rule

if TYPE_CHECKING:
    from .settings_file import FolderSettings

SETTINGS_FILE = ".ocibridge.toml"
"""Name of the settings file, in the root of the folder. It is stored itself."""


class Instructions(NamedTuple):
    """Contents of the two files; `settings` is None if the folder has none."""

    settings: FolderSettings | None
    rules: tuple[Rule, ...]
    ignores: Ignores


def read_instructions(root: Path, limits: Limits) -> Instructions:
    """Read the files of instructions in the root of a folder; the defaults where there are none.

    Raises:
        SourceError: one cannot be read.
        FormatError: one is not valid, or no regular file.
        LimitError: one is larger than `limits.metadata`, or has too many patterns.
    """
    place = root / SETTINGS_FILE
    text = _read(place, limits)
    found = None if text is None else _parsed(text, place)
    patterns = list(parse_patterns(DEFAULT_IGNORES, "the default patterns"))
    patterns += parse_patterns(found.ignore if found else (), f"{place}: ignore")
    text = _read(root / IGNORE_FILE, limits)
    patterns += parse_patterns(split_lines(text or ""), str(root / IGNORE_FILE))
    rules = tuple(Rule(glob, role) for glob, role in found.roles.items()) if found else ()
    return Instructions(found, rules, Ignores(patterns))


def _parsed(text: str, place: Path) -> FolderSettings:
    from .settings_file import parse_settings  # few folders have settings

    return parse_settings(text, str(place))


def _read(place: Path, limits: Limits) -> str | None:
    """The text of a file of instructions, or None where there is none. Links are not followed out of the folder."""
    with reading(place):
        try:
            info = place.lstat()
        except FileNotFoundError:
            return None
    if not stat.S_ISREG(info.st_mode):
        raise FormatError(f"{place} is no regular file", hint="replace it by a file, or remove it")
    if info.st_size > limits.metadata:
        raise LimitError(f"{place} has {info.st_size} bytes, more than the {limits.metadata} accepted")
    try:
        return read_all(FileContent(place, 0, info.st_size)).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FormatError(f"{place} is not UTF-8", hint="save it as UTF-8") from None
