# SPDX-License-Identifier: Apache-2.0
"""Sizes as people write them."""

from __future__ import annotations

import re

from ...paths import show

_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,9})?) ?([kKMGTP]i?B|B|)", re.ASCII)
_POWERS = "KMGTP"


def parse_size(text: str) -> int:
    """Bytes: a number with `KiB`, `MiB`, `GiB`, `TiB` or `PiB` (powers of 1024), `KB`, `MB`… (of 1000), `B` or nothing.

    Example:
        >>> parse_size("1.5GiB")
        1610612736

    Raises:
        ValueError: it is no size.
    """
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f"{show(text)} is no size; write for example 500MB, 50MiB or 4GiB")
    number, unit = found[1], found[2].upper()
    factor: int = 1
    if unit not in ("", "B"):
        factor = (1024 if "I" in unit else 1000) ** (_POWERS.index(unit[0]) + 1)
    # Whole numbers stay exact.
    return int(float(number) * factor) if "." in number else int(number) * factor


def parse_rate(text: str) -> int:
    """Bytes per second: a size, with `/s` behind it or not.

    Raises:
        ValueError: it is none, or less than a byte.
    """
    try:
        rate = parse_size(text.removesuffix("/s"))
    except ValueError:
        rate = 0
    if rate < 1:
        raise ValueError(f"{show(text)} is no rate; write for example 50MiB, which is 50 MiB a second")
    return rate
