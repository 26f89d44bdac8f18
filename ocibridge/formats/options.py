# SPDX-License-Identifier: Apache-2.0
"""The options that every format has; each format declares its own in a subclass."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..io.existing import TargetRules
from ..options import Options
from ..settings import DEFAULT_LIMITS, Limits


@dataclass(frozen=True, kw_only=True)
class ReadOptions(Options):
    """Options for reading a source.

    Attributes:
        exact: Whether an archive is stored as it is, so that a restoration is exact everywhere; see `Format.exact`.
        linked: Whether files that are only linked may stay so (see `Model.linked`): nobody needs their bytes.
        limits: See `ocibridge.settings.Limits`.
    """

    exact: bool = False
    linked: bool = False
    limits: Limits = DEFAULT_LIMITS


@dataclass(frozen=True, kw_only=True)
class WriteOptions(Options):
    """Options for writing a target.

    Attributes:
        packed: Whether an archive is written (true) or a folder (false); None decides by the name of the target.
        rules: What may happen to what exists at the target.
        key: Names what will arrive, such as the digest of its manifest, so that what a killed process has left of it
            is taken up; None begins anew each time.
        limits: See `ocibridge.settings.Limits`.
    """

    packed: bool | None = None
    rules: TargetRules = field(default=TargetRules(), repr=False)
    key: str | None = None
    limits: Limits = DEFAULT_LIMITS
