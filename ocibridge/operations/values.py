# SPDX-License-Identifier: Apache-2.0
"""Parsers for the values of options, for `ocibridge.options.option(parse=…)`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone

from ..errors import UsageError

_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)


def annotation(text: str) -> tuple[str, str]:
    """`KEY=VALUE` as a pair.

    Raises:
        UsageError: there is no key, or no `=`.
    """
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise UsageError(f"the annotation {text!r} is malformed", hint="write --annotation KEY=VALUE")
    return key, value


def annotations_of(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Annotations as a mapping.

    Raises:
        UsageError: a key comes twice.
    """
    found: dict[str, str] = {}
    for key, value in pairs:
        if key in found:
            raise UsageError(f"the annotation {key!r} is given twice", hint="leave out one of the two")
        found[key] = value
    return found


def moment(text: str) -> datetime:
    """A time: RFC 3339, or seconds since 1970.

    Example:
        >>> moment("0").isoformat()
        '1970-01-01T00:00:00+00:00'

    Raises:
        ValueError: it is neither.
    """
    try:
        if re.fullmatch(r"-?\d{1,12}", text, re.ASCII):
            return datetime.fromtimestamp(int(text), timezone.utc)
        if found := _RFC3339.fullmatch(text):
            year, month, day, hour, minute, second = map(int, found.groups()[:6])
            fraction, sign, hours, minutes = found.groups()[6:]
            offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0)) * (-1 if sign == "-" else 1)
            micro = int((fraction or "0")[:6].ljust(6, "0"))
            return datetime(year, month, day, hour, minute, second, micro, timezone(offset))
    except (ValueError, OverflowError, OSError):
        pass
    raise ValueError(f"{text!r} is no time: write 2026-01-31T12:00:00Z, or seconds since 1970")


def names(text: str) -> list[str]:
    """Words with commas between them.

    Example:
        >>> names("linux/amd64,linux/arm64")
        ['linux/amd64', 'linux/arm64']
    """
    return [word for word in text.split(",") if word]
