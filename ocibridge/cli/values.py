# SPDX-License-Identifier: Apache-2.0
"""What the values of options mean."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone

_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)


def key_values(pairs: Sequence[str]) -> dict[str, str]:
    """`KEY=VALUE` pairs as a mapping.

    Raises:
        UsageError: one has no key or no `=`, or a key comes twice.
    """
    from ..errors import UsageError

    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise UsageError(f"the annotation {pair!r} is malformed", hint="write --annotation KEY=VALUE")
        if key in found:
            raise UsageError(f"the annotation {key!r} is given twice", hint="leave out one of the two")
        found[key] = value
    return found


ROLES = ("weight", "weight.config", "doc", "code", "dataset")


def role_rules(pairs: Sequence[str]) -> list[tuple[str, str]]:
    """`GLOB=ROLE` pairs, in their order.

    Raises:
        UsageError: one has no glob, or a role that there is not.
    """
    from ..errors import UsageError

    found = []
    for pair in pairs:
        glob, _, role = pair.rpartition("=")
        if not glob or role not in ROLES:
            raise UsageError(
                f"the rule {pair!r} is malformed", hint=f"write --role 'GLOB=ROLE' with one of: {', '.join(ROLES)}"
            )
        found.append((glob, role))
    return found


def moment(text: str) -> datetime:
    """A time: RFC 3339, or seconds since 1970.

    Example:
        >>> moment("0").isoformat()
        '1970-01-01T00:00:00+00:00'

    Raises:
        ArgumentTypeError: it is neither.
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
    raise argparse.ArgumentTypeError(f"{text!r} is no time: write 2026-01-31T12:00:00Z, or seconds since 1970")


def count(text: str) -> int:
    """A whole number of 1 or more.

    Raises:
        ArgumentTypeError: it is something else.
    """
    if not re.fullmatch(r"\d{1,6}", text, re.ASCII) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of 1 or more")
    return int(text)


def names(text: str) -> list[str]:
    """Words with commas between them.

    Example:
        >>> names("linux/amd64,linux/arm64")
        ['linux/amd64', 'linux/arm64']
    """
    return [word for word in text.split(",") if word]
