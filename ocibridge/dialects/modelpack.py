# SPDX-License-Identifier: Apache-2.0
"""The dialect `modelpack`: the model format specification under its current names (model-spec v0.0.7 and later)."""

from __future__ import annotations

from .base import ManifestDialect
from .cnai import Cnai


class Modelpack(Cnai):
    """`application/vnd.cncf.model.*`."""

    name = "modelpack"
    namespace = "cncf"

    def __init__(self) -> None:
        super().__init__(bare_raw=False)

    @property
    def filepath_prefixes(self) -> tuple[str, ...]:
        """Its own alone, which newer readers want; older ones take the title."""
        return (self.prefix,)

    def with_bare_raw(self) -> ManifestDialect:
        """It has one name for raw weights."""
        return self
