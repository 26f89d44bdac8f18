# SPDX-License-Identifier: Apache-2.0
"""Manifests, indexes, configs and layers of a store, of whatever tool, each looked at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import FormatError
from ..layers import Encoding
from ..oci import MEDIA_TYPE_DOCKER_INDEX, MEDIA_TYPE_INDEX, Descriptor, Index, Manifest, parse_document, parse_json
from ..stores.base import Store
from ..stores.missing import naming_tags
from .entries import Contents, contents, encoding_of


@dataclass(frozen=True, slots=True)
class Found:
    """What a tag or digest names: either a manifest or an index.

    Attributes:
        descriptor: Its descriptor.
        manifest: The manifest, if it is one.
        index: The index, if it is one.
    """

    descriptor: Descriptor
    manifest: Manifest | None
    index: Index | None

    @property
    def subject(self) -> Descriptor | None:
        """The manifest that it belongs to."""
        return (self.index or self.manifest or _NOTHING).subject


_NOTHING = Index(manifests=[])


class Documents:
    """The documents of one repository.

    Args:
        store: Where they are; it must stay open.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._loaded: dict[str, Found] = {}
        self._configs: dict[str, bytes] = {}
        self._contents: dict[tuple[str, bool], Contents] = {}
        self._encodings: dict[str, Encoding] = {}

    def named(self, version: str) -> Found:
        """What a tag or a digest names that a user gave.

        Raises:
            NotFound: nothing; the hint says which tags there are.
            FormatError: it is neither a manifest nor an index.
        """
        with naming_tags(self.store, version):
            return self.load(version)

    def load(self, version: str) -> Found:
        """What a tag or a digest names.

        Raises:
            NotFound: nothing.
            FormatError: it is neither a manifest nor an index.
        """
        if version in self._loaded:
            return self._loaded[version]
        descriptor, data = self.store.fetch_manifest(version)
        owner = f"the manifest {self.store.name}@{descriptor.digest}"
        limit = self.store.limits.manifest
        if descriptor.media_type in (MEDIA_TYPE_INDEX, MEDIA_TYPE_DOCKER_INDEX):
            found = Found(descriptor, None, parse_document(Index, data, owner, limit))
        else:
            found = Found(descriptor, parse_document(Manifest, data, owner, limit), None)
        self._loaded[version] = self._loaded[descriptor.digest] = found
        return found

    def config(self, found: Found) -> bytes:
        """The config object of a manifest, verified.

        Raises:
            LimitError: it is larger than `Limits.config`.
        """
        assert found.manifest is not None
        descriptor = found.manifest.config
        if descriptor.digest not in self._configs:
            self._configs[descriptor.digest] = self.store.read_blob(descriptor, self.store.limits.config)
        return self._configs[descriptor.digest]

    def config_platform(self, found: Found) -> dict[str, Any]:
        """What the config of a manifest says of its platform; nothing where it is no config of an image."""
        if found.manifest is None:
            return {}
        data = self.config(found)
        try:
            document: Any = parse_json(data, "the config", len(data))
        except FormatError:
            return {}
        return document if isinstance(document, dict) else {}

    def contents(self, layer: Descriptor, *, whole: bool) -> Contents:
        """See `ocibridge.volume.entries.contents`."""
        key = (layer.digest, whole)
        if key not in self._contents:
            self._contents[key] = contents(self.store, layer, whole=whole)
        return self._contents[key]

    def encoding(self, layer: Descriptor) -> Encoding:
        """See `ocibridge.volume.entries.encoding_of`."""
        if layer.digest not in self._encodings:
            self._encodings[layer.digest] = encoding_of(self.store, layer)
        return self._encodings[layer.digest]
