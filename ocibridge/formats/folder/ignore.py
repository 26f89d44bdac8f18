# SPDX-License-Identifier: Apache-2.0
"""Ignore rules of a folder (`.ocibridgeignore`, with the patterns of gitignore(5))."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ...errors import FormatError, LimitError
from ...paths import show
from .globs import Glob

IGNORE_FILE = ".ocibridgeignore"
"""Name of the ignore file; only the one in the root of the folder counts. It is no part of the model itself."""

DEFAULT_IGNORES = (
    f"/{IGNORE_FILE}",
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


class Ignores:
    """Patterns in order, of which the last that matches decides."""

    def __init__(self, patterns: Iterable[Glob]) -> None:
        self._patterns = tuple(patterns)[::-1]

    def ignores(self, path: str, is_folder: bool) -> bool:
        """Return whether `path` is ignored, given that the folder that it is in is not.

        Nothing in an ignored folder can be taken back, as in gitignore(5).
        """
        place = f"{path}/" if is_folder else path
        return next((bool(each.include) for each in self._patterns if each.match_file(place)), False)


def parse_patterns(lines: Sequence[str], owner: str) -> Iterator[Glob]:
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
        try:
            pattern = Glob(line)
        except ValueError as exc:
            raise FormatError(
                f"{owner}, pattern {number}: {show(line)} {exc}", hint="correct it, or escape the character with '\\'"
            ) from None
        if pattern.include is None:
            continue
        count += 1
        if count > MAX_PATTERNS:
            raise LimitError(f"{owner} has more than the {MAX_PATTERNS} patterns accepted")
        yield pattern


def split_lines(text: str) -> list[str]:
    """The lines of an ignore file, which end in LF or CR LF and in nothing else."""
    return [line.removesuffix("\r") for line in text.split("\n")]
