# SPDX-License-Identifier: Apache-2.0
"""Sizes as people write them."""

from __future__ import annotations

from ...operations.values import parse_size
from ...paths import show


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
