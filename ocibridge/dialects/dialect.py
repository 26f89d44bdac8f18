# SPDX-License-Identifier: Apache-2.0
"""The dialects by name."""

from __future__ import annotations

from ..errors import UsageError
from .choices import Dialect
from .cnai import Cnai, Modelpack
from .draft import DraftDialect
from .vocabulary import ManifestDialect


def dialect_of(dialect: Dialect | str, *, bare_raw: bool = False) -> ManifestDialect:
    """The names that a dialect uses.

    Args:
        dialect: `cnai` (seed 001), `draft` (seed 003) or `modelpack` (the current specification).
        bare_raw: See `Cnai`; without effect in the other two, which have one name for each encoding at most.

    Raises:
        UsageError: there is no such dialect.
    """
    known = [each.value for each in Dialect]
    if dialect not in known:
        raise UsageError(f"{dialect!r} is no dialect", hint=f"give one of: {', '.join(known)}")
    chosen = Dialect(dialect)
    if chosen is Dialect.CNAI:
        return Cnai(bare_raw=bare_raw)
    return DraftDialect() if chosen is Dialect.DRAFT else Modelpack()
