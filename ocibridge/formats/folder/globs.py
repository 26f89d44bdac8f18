# SPDX-License-Identifier: Apache-2.0
"""Patterns of gitignore(5), for ignore files and for rules; `pathspec` translates them to regular expressions.

Three things are changed in what it makes of a pattern. It matches a path itself and not what is below it, because the
walk asks for each folder before it enters it, as git does. A bracket never matches a slash. And no part between two
stars is tried in more than one place, so that a match takes time in proportion to the path, and no pattern of a
downloaded folder can stall a run; `**` is limited to two for the same reason.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator

from pathspec.patterns.gitignore.base import GitIgnorePatternError
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

MAX_GLOB = 1024
"""Characters of one pattern."""
MAX_DEPTHS = 2
"""How many times a pattern may stand for any number of folders; each multiplies the time by the depth of a path."""

_STAR = "[^/]*"
_FIRST, _INNER = "(?:.+/)?", "(?:/.+)?"
"""What `pathspec` makes of `**`, at the beginning of a pattern and inside of it."""


class Glob(GitIgnoreSpecPattern):
    """One pattern; `include` is False where it begins with `!`, and None where it is empty or a comment.

    Raises:
        ValueError: it is no pattern, or costs too much; the message is a clause such as "is no pattern of gitignore".
    """

    def __init__(self, text: str) -> None:
        if len(text) > MAX_GLOB:
            raise ValueError(f"is longer than {MAX_GLOB} characters")
        if "[[:" in text:
            raise ValueError("has a character class by name, which is not supported")
        if "//" in text or text.removeprefix("!") == "/":
            raise ValueError("has an empty part")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # of brackets such as `[a&&b]`
                super().__init__(re.sub(r"\*{3,}", "**", text))
        except (GitIgnorePatternError, re.error):
            raise ValueError("is no pattern of gitignore") from None
        if self.include is None and text.strip() and not text.startswith("#"):
            raise ValueError("is no pattern of gitignore")
        if self.regex and self.regex.pattern.count(_FIRST) + self.regex.pattern.count(_INNER) > MAX_DEPTHS:
            raise ValueError(f"has more than {MAX_DEPTHS} '**'")

    @classmethod
    def pattern_to_regex(cls, pattern: str) -> tuple[str | None, bool | None]:  # type: ignore[override]
        """See `pathspec.RegexPattern`; what it returns matches a whole path, that of a folder with a slash."""
        regex, include = super().pattern_to_regex(pattern)
        return (None if regex is None else _linear(regex) + _end(regex, pattern.rstrip())), include

    def covers(self, path: str) -> bool:
        """Return whether it matches the file `path` or, where it ends in a slash, a folder that the file is in."""
        if str(self).endswith("/"):
            return any(self.match_file(f"{folder}/") for folder in parents(path))
        return self.match_file(path) is not None

    def holds(self, path: str) -> bool:
        """Return whether it matches the file `path` or any folder that the file is in."""
        return self.covers(path) or any(self.match_file(f"{folder}/") for folder in parents(path))


def parents(path: str) -> Iterator[str]:
    """The folders that the file `path` is in, the outermost first."""
    end = path.find("/")
    while end != -1:
        yield path[:end]
        end = path.find("/", end + 1)


def _end(regex: str, text: str) -> str:
    """The end of `regex` that makes it match a whole path; `a/**` matches the content of `a`, and not `a` itself."""
    if regex.startswith("^") and text.endswith("/**"):
        return "."
    return r".*/\Z" if regex.startswith("^") and text.endswith("/**/") else r"\Z"


def _linear(regex: str) -> str:
    """`regex` with what follows each star, but the last, taken where it is found first, as `fnmatch.translate` does."""
    first, *parts = regex.replace("[^", "[^/").replace("[^//]", "[^/]").split(_STAR)
    for number, part in enumerate(parts):
        if number < len(parts) - 1 and _INNER not in part:
            first += f"(?=(?P<s{number}>{_STAR}?{part}))(?P=s{number})"
        else:
            first += _STAR + part
    return first
