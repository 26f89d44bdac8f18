# SPDX-License-Identifier: Apache-2.0
"""Which files of a folder are not carried (`.ocibridgeignore`, a subset of gitignore(5))."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ...errors import FormatError, LimitError
from ...paths import show
from .globs import Glob, GlobTable

IGNORE_FILE = ".ocibridgeignore"
"""Name of the ignore file; only the one in the root of the folder counts. It is carried itself."""

DEFAULT_IGNORES = (
    ".git",
    ".cache/huggingface/",
    "__pycache__/",
    "*.pyc",
    ".ipynb_checkpoints/",
    ".DS_Store",
    ".env",
    ".netrc",
    "*.enckey",
)
"""What is ignored unless the ignore file takes it back with `!`: version control, caches, and files of secrets."""

MAX_PATTERNS = 10_000
"""Patterns of one folder."""


class Pattern(NamedTuple):
    """One line of an ignore file: a glob, and whether it takes back (`!`) what an earlier one ignores."""

    glob: Glob
    keep: bool


class Ignores:
    """Patterns in order, of which the last that matches decides."""

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        self._patterns = tuple(patterns)[::-1]
        self._globs = GlobTable(each.glob for each in self._patterns)

    def ignores(self, path: str, is_folder: bool) -> bool:
        """Whether `path` is ignored, given that the folder that it is in is not.

        Nothing in an ignored folder can be taken back, as in gitignore(5).
        """
        number = self._globs.first(path, _matches_folder if is_folder else Glob.matches)
        return number is not None and not self._patterns[number].keep


def _matches_folder(glob: Glob, path: str) -> bool:
    return glob.matches(path, is_folder=True)


def parse_patterns(lines: Sequence[str], owner: str) -> Iterator[Pattern]:
    """The patterns in `lines`; empty ones and comments (`#`) are skipped.

    Args:
        lines: Lines without their ends.
        owner: What they are, for messages.

    Raises:
        FormatError: one is not well formed.
        LimitError: there are too many.
    """
    count = 0
    for number, line in enumerate(lines, 1):
        text = _trimmed(line)
        if not text or text.startswith("#"):
            continue
        count += 1
        if count > MAX_PATTERNS:
            raise LimitError(f"{owner} has more than the {MAX_PATTERNS} patterns accepted")
        keep = text.startswith("!")
        try:
            yield Pattern(Glob(text[keep:]), keep)
        except ValueError as exc:
            raise FormatError(
                f"{owner}, pattern {number}: {show(text)} {exc}", hint="correct it, or escape the character with '\\'"
            ) from None


def split_lines(text: str) -> list[str]:
    """The lines of an ignore file, which end in LF or CR LF and in nothing else."""
    return [line.removesuffix("\r") for line in text.split("\n")]


def _trimmed(line: str) -> str:
    """`line` without trailing spaces, but with one that a backslash protects."""
    text = line.rstrip(" ")
    backslashes = len(text) - len(text.rstrip("\\"))
    return text + " " if backslashes % 2 and text != line else text
