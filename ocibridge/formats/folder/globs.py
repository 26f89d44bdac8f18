# SPDX-License-Identifier: Apache-2.0
"""Globs as gitignore(5) has them, for lists of ignored files and for rules.

`*`, `?`, `[a-z]` and `[!a-z]` match inside one part of a path, `**` any number of parts, a backslash takes the next
character literally. A glob with a slash at its beginning or in its middle counts from the folder's root, any other one
matches a name at any depth. With a slash at its end it means folders. What gitignore lets pass and never matches (an
unclosed bracket, an empty part) is refused, and so are classes such as `[[:alpha:]]`.

Matching takes at most time proportional to the length of the glob times that of the path: no regular expression, so
that no glob can stall a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

PatternT = TypeVar("PatternT")
ItemT = TypeVar("ItemT")

MAX_GLOB = 1024
"""Characters of one glob."""

_SPECIAL = frozenset("*?[\\")
_Ranges = tuple[tuple[str, str], ...]
_Token = tuple[bool, _Ranges] | None
"""One character of a name: whether it must lie in one of the ranges, or None for any number of characters."""


class Glob:
    """One glob.

    Args:
        text: See the module.

    Attributes:
        folders: Whether it ends in a slash, and so means folders alone.

    Raises:
        ValueError: it is not well formed; the message is a clause such as "has an empty part".
    """

    def __init__(self, text: str) -> None:
        if len(text) > MAX_GLOB:
            raise ValueError(f"is longer than {MAX_GLOB} characters")
        body = text.removesuffix("/")
        self.folders = body != text
        parts = body.removeprefix("/").split("/")
        if "" in parts:
            raise ValueError("has an empty part")
        self._parts: list[_Part | None] = []
        self._name = _Part(body) if "/" not in body else None
        if self._name:
            return
        self._parts = [None if part == "**" else _Part(part) for part in parts]
        if self._parts[-1] is None:
            self._parts.append(_Part("*"))  # `a/**` means what is in `a`, not `a` itself

    @property
    def key(self) -> str | None:
        """What alone decides whether it matches a path, if that is so simple: the name, or the last suffix (`*.x`)."""
        if self._name is None or self.folders:
            return None
        end = self._name.end
        if end and end.startswith(".") and "." not in end[1:]:
            return "*" + end
        return self._name.exact

    @property
    def edge(self) -> str:
        """`^` and the first character of every name that it matches, else `$` and the last, else nothing."""
        literals = self._name.literals if self._name and not self.folders else []
        if literals and literals[0]:
            return "^" + literals[0][0]
        return "$" + literals[-1][-1] if literals and literals[-1] else ""

    def matches(self, path: str, is_folder: bool = False) -> bool:
        """Whether it matches exactly `path` (relative, POSIX), a file or a folder."""
        if self.folders and not is_folder:
            return False
        if self._name:
            return self._name.matches(path.rpartition("/")[2])
        return _wild(self._parts, path.split("/"), _Part.matches)

    def covers(self, path: str) -> bool:
        """Whether it matches the file `path`, or, where it means folders, one that the file is in."""
        return any(self.matches(each, True) for each in parents(path)) if self.folders else self.matches(path)


class GlobTable:
    """Globs in order, of which the first that matches decides; most are told apart without trying one.

    Args:
        globs: The globs.
    """

    def __init__(self, globs: Iterable[Glob]) -> None:
        self._simple: dict[str, int] = {}
        self._starts: dict[str, list[tuple[int, Glob]]] = {}
        self._ends: dict[str, list[tuple[int, Glob]]] = {}
        self._others: list[tuple[int, Glob]] = []
        self._count = 0
        for number, glob in enumerate(globs):
            self._count += 1
            if glob.key is not None:
                self._simple.setdefault(glob.key, number)
            elif glob.edge:
                side = self._starts if glob.edge[0] == "^" else self._ends
                side.setdefault(glob.edge[1], []).append((number, glob))
            else:
                self._others.append((number, glob))

    def first(self, path: str, fits: Callable[[Glob, str], bool] = Glob.matches) -> int | None:
        """The number of the first glob that matches `path`, if one does.

        Args:
            path: The path.
            fits: How a glob that cannot be told from the name alone is tried.
        """
        name = path[path.rfind("/") + 1 :]
        best = self._simple.get(name, self._count)
        dot = name.rfind(".")
        if dot >= 0:
            best = min(best, self._simple.get(f"*{name[dot:]}", best))
        for some in (self._starts.get(name[0]), self._ends.get(name[-1]), self._others):
            for number, glob in some or ():
                if number > best:
                    break
                if fits(glob, path):
                    best = number
        return best if best < self._count else None


class _Part:
    """A glob for one part of a path; names with nothing but stars in them, which nearly all are, have a short way."""

    def __init__(self, text: str) -> None:
        self.exact: str | None = None
        self.end: str | None = None
        self.literals: list[str] = []
        if _SPECIAL.isdisjoint(text.replace("*", "")):
            self.literals = text.split("*")
            if len(self.literals) == 1:
                self.exact = text
            elif not any(self.literals[:-1]):
                self.end = self.literals[-1]
        self._tokens = [] if self.literals else list(_tokens(text))
        self._needed = _longest_literal(self._tokens)

    def matches(self, name: str) -> bool:
        if self.end is not None:
            return name.endswith(self.end)
        if self.exact is not None:
            return name == self.exact
        if not self.literals:
            # Most names lack it, and are told apart much faster by that.
            return self._needed in name and _wild(self._tokens, name, _fits)
        first, *middle, last = self.literals
        if not (name.startswith(first) and name.endswith(last)):
            return False
        at, end = len(first), len(name) - len(last)
        for literal in middle:
            at = name.find(literal, at, end)
            if at < 0:
                return False
            at += len(literal)
        return at <= end


def parents(path: str) -> Iterator[str]:
    """The folders that the file `path` is in, the outermost first."""
    end = path.find("/")
    while end != -1:
        yield path[:end]
        end = path.find("/", end + 1)


def _wild(pattern: Sequence[PatternT | None], items: Sequence[ItemT], fits: Callable[[PatternT, ItemT], bool]) -> bool:
    """Whether `pattern` matches all `items`; None in it stands for any number of them."""
    at = item = 0
    star = mark = -1
    while item < len(items):
        here = pattern[at] if at < len(pattern) else None
        if here is not None and fits(here, items[item]):
            at, item = at + 1, item + 1
        elif here is None and at < len(pattern):
            star, mark = at, item
            at += 1
        elif star >= 0:
            # Let the last star have one more; an earlier one could not do better.
            mark += 1
            at, item = star + 1, mark
        else:
            return False
    return all(each is None for each in pattern[at:])


def _fits(token: tuple[bool, _Ranges], char: str) -> bool:
    inside, ranges = token
    return inside == any(first <= char <= last for first, last in ranges)


def _longest_literal(tokens: Iterable[_Token]) -> str:
    """The longest text that everything which matches has in it."""
    runs = [""]
    for token in tokens:
        inside, ranges = token or (False, ())
        if inside and len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
            runs[-1] += ranges[0][0]
        else:
            runs.append("")
    return max(runs, key=len)


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char == "*":
            yield None
        elif char == "?":
            yield False, ()
        elif char == "[":
            token, at = _bracket(text, at)
            yield token
        else:
            if char == "\\":
                char, at = _escaped(text, at)
            yield True, ((char, char),)


def _escaped(text: str, at: int) -> tuple[str, int]:
    if at == len(text):
        raise ValueError("has a part that ends in a backslash")
    return text[at], at + 1


def _bracket(text: str, at: int) -> tuple[tuple[bool, _Ranges], int]:
    """The token of the bracket whose inside begins at `at`, and where it ends."""
    negated = text[at : at + 1] in ("!", "^")
    at += negated
    first = at
    ranges = []
    while at < len(text) and (text[at] != "]" or at == first):
        if text[at] == "[" and text[at + 1 : at + 2] in (":", "=", "."):
            raise ValueError("has a character class by name, which is not supported")
        low, at = _member(text, at)
        high = low
        if text[at : at + 1] == "-" and text[at + 1 : at + 2] not in ("]", ""):
            high, at = _member(text, at + 1)
        ranges.append((low, high))
    if at >= len(text):
        raise ValueError("has a '[' without its ']'")
    return (not negated, tuple(ranges)), at + 1


def _member(text: str, at: int) -> tuple[str, int]:
    return _escaped(text, at + 1) if text[at] == "\\" else (text[at], at + 1)
