# SPDX-License-Identifier: Apache-2.0
"""Ranges of versions, such as `>=1.2 <2`, `^1.2`, `~1.2.3`, `1.x` or `1.2 - 1.4 || 2.x`.

Versions: Semantic Versioning 2.0.0, section 11 for their order. Ranges: the grammar of Masterminds/semver v3, which
Helm and many other tools of the field use. A version may lack its minor and patch number and may begin with `v`.
The library semantic_version has no such ranges: its NpmSpec knows no `!=` and no comma, and takes prereleases of one
version alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import total_ordering

from ...paths import show

MAX_RANGE = 256
"""Characters of one range."""

_PRE = r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
_VERSION = re.compile(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?" + _PRE, re.ASCII)
_PARTIAL = r"v?(\d+|[xX*])(?:\.(\d+|[xX*]))?(?:\.(\d+|[xX*]))?" + _PRE
_OPERATOR = r"=>|=<|>=|<=|!=|~>|[=<>~^]"
_COMPARATOR = re.compile(rf"({_OPERATOR})?{_PARTIAL}", re.ASCII)
_SPACE_AFTER_OPERATOR = re.compile(rf"({_OPERATOR})\s+(?=[vxX*\d])", re.ASCII)
_HYPHEN = re.compile(r"(\S+)\s+-\s+(\S+)")
_SYNONYMS = {None: "=", "=>": ">=", "=<": "<=", "~>": "~"}
_HINT = "write for example '>=1.2 <2', '^1.2', '~1.2.3', '1.x' or '1.2 - 1.4 || 2.x'"


@total_ordering
@dataclass(frozen=True, slots=True)
class Version:
    """A version; build metadata is not kept, as it does not count.

    Attributes:
        release: Major, minor and patch number.
        pre: Identifiers of the prerelease, such as `("rc", "1")`.
    """

    release: tuple[int, int, int]
    pre: tuple[str, ...] = ()

    @staticmethod
    def parse(text: str) -> Version | None:
        """The version that a tag is, or None for a tag that is none.

        Example:
            >>> Version.parse("v1.2-rc.1")
            Version(release=(1, 2, 0), pre=('rc', '1'))
        """
        found = _VERSION.fullmatch(text)
        if found is None:
            return None
        *numbers, pre = found.groups()
        identifiers = _identifiers(pre)
        if identifiers is None:
            return None
        major, minor, patch = (int(number or 0) for number in numbers)
        return Version((major, minor, patch), identifiers)

    def __lt__(self, other: Version) -> bool:
        return self._key() < other._key()

    def _key(self) -> tuple[tuple[int, int, int], bool, tuple[tuple[int, int, str], ...]]:
        pre = tuple((0, int(each), "") if each.isdigit() else (1, 0, each) for each in self.pre)
        return self.release, not self.pre, pre


@dataclass(frozen=True, slots=True)
class _Comparator:
    """One operator with its version, of which `given` numbers are written."""

    operator: str
    version: Version
    given: int

    def matches(self, found: Version) -> bool:
        version, given = self.version, self.given
        same = found.release[:given] == version.release[:given]
        if self.operator == "=":
            return found == version if given == 3 else same and found >= version
        if self.operator == "!=":
            return found != version if given == 3 else not same
        if self.operator == ">":
            return found > version if given == 3 else found.release[:given] > version.release[:given]
        if self.operator == "<=":
            return found <= version if given == 3 else found.release[:given] <= version.release[:given]
        if self.operator == "<":
            return found < version
        if self.operator == ">=":
            return found >= version
        fixed = min(given, 2) if self.operator == "~" else self._first_that_counts()
        return found >= version and found.release[:fixed] == version.release[:fixed]

    def _first_that_counts(self) -> int:
        """Return how many numbers `^` fixes: all up to the first that is not 0."""
        for position, number in enumerate(self.version.release[: self.given], 1):
            if number:
                return position
        return self.given


@dataclass(frozen=True, slots=True)
class Range:
    """A set of versions.

    Attributes:
        text: As it was written.
    """

    text: str
    _groups: tuple[tuple[_Comparator, ...], ...]

    @staticmethod
    def parse(text: str) -> Range:
        """Read a range: comparators with a space or comma between them must all hold, `||` separates alternatives.

        Example:
            >>> [tag for tag in ("1.1", "v1.4.2", "1.5.0-rc1", "2.0.0") if Range.parse("^1.2").matches(tag)]
            ['v1.4.2']

        Raises:
            ValueError: it is no range; the message says what is wrong and what to write.
        """
        if len(text) > MAX_RANGE:
            raise ValueError(f"the range has {len(text)} characters; give at most {MAX_RANGE}, and several ranges")
        return Range(text, tuple(_group(part, text) for part in text.split("||")))

    def matches(self, tag: str) -> bool:
        """Return whether a tag is a version of this range.

        A prerelease is so only where an alternative of the range names one itself, as in `>=1.2.0-0`.
        """
        version = Version.parse(tag)
        if version is None:
            return False
        return any(
            all(each.matches(version) for each in group)
            for group in self._groups
            if not version.pre or any(each.version.pre for each in group)
        )


def _group(text: str, whole: str) -> tuple[_Comparator, ...]:
    text = _HYPHEN.sub(r">=\1 <=\2", text.strip())
    text = _SPACE_AFTER_OPERATOR.sub(r"\1", text)
    return tuple(_comparator(part, whole) for part in re.split(r"\s*,\s*|\s+", text))


def _comparator(text: str, whole: str) -> _Comparator:
    found = _COMPARATOR.fullmatch(text)
    if found is None:
        raise ValueError(f"{show(text)} in {show(whole)} is no comparison of versions; {_HINT}")
    operator, *numbers, pre = found.groups()
    operator = _SYNONYMS.get(operator, operator)
    written = []
    for number in numbers:
        if number is None or not number.isdigit():
            break
        written.append(int(number))
    if not written and operator in ("<", ">", "<=", "!="):
        raise ValueError(f"{show(text)} in {show(whole)} compares with no version; {_HINT}")
    identifiers = _identifiers(pre)
    if identifiers is None:
        raise ValueError(f"{show(text)} in {show(whole)} has a prerelease number that begins with 0; {_HINT}")
    major, minor, patch = (*written, 0, 0, 0)[:3]
    return _Comparator(operator, Version((major, minor, patch), identifiers), len(written))


def _identifiers(pre: str | None) -> tuple[str, ...] | None:
    """The parts of a prerelease; None where a number begins with 0 (section 9)."""
    parts = tuple(pre.split(".")) if pre else ()
    return None if any(part.isdigit() and len(part) > 1 and part[0] == "0" for part in parts) else parts
