# SPDX-License-Identifier: Apache-2.0
"""The dialects that follow the model format specification: `cnai` (seed 001) and `modelpack` (its current names)."""

from __future__ import annotations

from collections.abc import Sequence

from ..layers import Encoding
from ..model import ModelInfo
from ..oci import Descriptor
from .annotations import SPECIFIED
from .config import config_of
from .vocabulary import FinishedLayer, ManifestDialect


class Cnai(ManifestDialect):
    """`application/vnd.cnai.model.*` as in seed 001.

    Args:
        bare_raw: Whether a raw weight is `weight.v1`, as in seed 001, or `weight.v1.raw`, as released from v0.0.3 on.
    """

    name = "cnai"
    namespace = "cnai"

    def __init__(self, *, bare_raw: bool = False) -> None:
        self._bare_raw = bare_raw

    @property
    def raw_prefixes(self) -> tuple[str, ...]:
        """Both: CRI-O 1.33 looks for this prefix, 1.34 and later for that of its successor."""
        return SPECIFIED

    def check(self, encodings: Sequence[Encoding]) -> None:
        """Every encoding has a name."""

    def config(self, info: ModelInfo, diff_ids: Sequence[str]) -> tuple[bytes, str]:
        """The config object of the specification."""
        media_type = f"application/vnd.{self.namespace}.model.config.v1+json"
        return config_of(info, diff_ids).to_json(), media_type

    def layer(self, layer: FinishedLayer, annotations: dict[str, str]) -> Descriptor:
        """A layer whose media type names role and encoding."""
        suffix = "" if layer.encoding is Encoding.RAW and self._bare_raw else f".{layer.encoding.value}"
        return Descriptor(
            media_type=f"application/vnd.{self.namespace}.model.{layer.role.value}.v1{suffix}",
            digest=layer.digest,
            size=layer.size,
            annotations=annotations or None,
        )


class Modelpack(Cnai):
    """`application/vnd.cncf.model.*`: the current names (model-spec v0.0.7 and later)."""

    name = "modelpack"
    namespace = "cncf"

    def __init__(self) -> None:
        super().__init__(bare_raw=False)

    @property
    def raw_prefixes(self) -> tuple[str, ...]:
        """Its own alone, which newer readers want; older ones take the title."""
        return (self.prefix,)
