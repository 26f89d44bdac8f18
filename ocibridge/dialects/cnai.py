# SPDX-License-Identifier: Apache-2.0
"""The dialect `cnai`: the model format specification under its first names (seed 001)."""

from __future__ import annotations

from collections.abc import Sequence

from ..layers import Encoding
from ..model import ModelInfo
from ..oci import Descriptor, Manifest
from ..settings import Limits
from .annotations import SPECIFIED
from .base import ConfigFacts, FinishedLayer, ManifestDialect
from .config import config_of, info_of, parse_config


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
    def filepath_prefixes(self) -> tuple[str, ...]:
        """Both: CRI-O 1.33 looks for this prefix, 1.34 and later for that of its successor."""
        return SPECIFIED

    def with_bare_raw(self) -> ManifestDialect:
        """With `weight.v1` for raw weights."""
        return Cnai(bare_raw=True)

    def read_config(self, manifest: Manifest, config: bytes, owner: str, limits: Limits) -> ConfigFacts:
        """The config object of the specification, in any of the spellings that its releases have had."""
        parsed = parse_config(config, f"the config of {owner}", limits.config)
        return ConfigFacts(info_of(parsed), parsed.modelfs.diff_ids, parsed)

    def config(self, info: ModelInfo, diff_ids: Sequence[str]) -> tuple[bytes, str]:
        """The config object of the specification."""
        return config_of(info, diff_ids).to_json(), self.config_type

    def layer(self, layer: FinishedLayer, annotations: dict[str, str]) -> Descriptor:
        """A layer whose media type names role and encoding."""
        suffix = "" if layer.encoding is Encoding.RAW and self._bare_raw else f".{layer.encoding.value}"
        return Descriptor(
            media_type=f"application/vnd.{self.namespace}.model.{layer.role.value}.v1{suffix}",
            digest=layer.digest,
            size=layer.size,
            annotations=annotations or None,
        )
