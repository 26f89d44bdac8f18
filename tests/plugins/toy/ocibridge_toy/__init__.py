# SPDX-License-Identifier: Apache-2.0
"""A dialect of its own: media types, a config object, and annotations by the rules of all dialects."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ocibridge.dialects.base import ConfigFacts, FinishedLayer, ManifestDialect
from ocibridge.errors import FormatError
from ocibridge.layers import Encoding
from ocibridge.model import ModelInfo, Role
from ocibridge.oci import Descriptor, Manifest, canonical_json
from ocibridge.settings import Limits


class Toy(ManifestDialect):
    """`application/vnd.toy.model.*`, for tar layers."""

    name = "toy"
    namespace = "toy"
    encodings = (Encoding.TAR, Encoding.TAR_ZSTD)

    def config(self, info: ModelInfo, diff_ids: Sequence[str]) -> tuple[bytes, str]:
        """A name and the diff ids."""
        return canonical_json({"name": info.name, "diffs": list(diff_ids)}), self.config_type

    def layer(self, layer: FinishedLayer, annotations: dict[str, str]) -> Descriptor:
        """A media type of role and encoding."""
        kind = f"application/vnd.toy.model.{layer.encoding.value}"
        found = {**annotations, f"{self.prefix}role": layer.role.value}
        return Descriptor(
            media_type=kind, digest=layer.digest, size=layer.size, annotations=dict(sorted(found.items()))
        )

    def read_config(self, manifest: Manifest, config: bytes, owner: str, limits: Limits) -> ConfigFacts:
        """The name and the diff ids again."""
        try:
            document = json.loads(config)
            return ConfigFacts(ModelInfo(name=document["name"]), document["diffs"])
        except (ValueError, KeyError, TypeError):
            raise FormatError(f"the config of {owner} is no toy", hint="publish it again") from None

    def read_layer(self, descriptor: Descriptor, owner: str) -> tuple[Role, Encoding]:
        """The role from the annotation, the encoding from the media type."""
        try:
            role = Role((descriptor.annotations or {})[f"{self.prefix}role"])
            return role, Encoding(descriptor.media_type.removeprefix("application/vnd.toy.model."))
        except (KeyError, ValueError):
            raise FormatError(f"{owner} is no layer of a toy", hint="publish it again") from None
