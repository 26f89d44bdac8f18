# SPDX-License-Identifier: Apache-2.0
"""Manifests, indexes, configs and layers of a store, each loaded once; any tool may have written them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import FormatError
from ..layers import Encoding
from ..oci import MEDIA_TYPE_DOCKER_INDEX, MEDIA_TYPE_INDEX, Descriptor, Index, Manifest, parse_document, parse_json
from ..stores.base import Store
from ..stores.missing import naming_tags
from .entries import LayerContents, contents, encoding_of


@dataclass(frozen=True, slots=True)
class ManifestOrIndex:
    """A manifest or an index.

    Attributes:
        descriptor: The descriptor.
        manifest: The manifest; None for an index.
        index: The index; None for a manifest.
    """

    descriptor: Descriptor
    manifest: Manifest | None
    index: Index | None

    @property
    def subject(self) -> Descriptor | None:
        """The descriptor in its field `subject`."""
        return (self.index or self.manifest or _NOTHING).subject


_NOTHING = Index(manifests=[])


class Documents:
    """The documents of one repository.

    Args:
        store: The repository; it must stay open.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._loaded: dict[str, ManifestOrIndex] = {}
        self._configs: dict[str, bytes] = {}
        self._contents: dict[tuple[str, bool], LayerContents] = {}
        self._encodings: dict[str, Encoding] = {}

    def named(self, version: str) -> ManifestOrIndex:
        """Load the document of a tag or digest that a user gave.

        Raises:
            NotFound: there is none; the hint lists existing tags.
            FormatError: it is neither a manifest nor an index.
        """
        with naming_tags(self.store, version):
            return self.load(version)

    def load(self, version: str) -> ManifestOrIndex:
        """Load the document of a tag or digest.

        Raises:
            NotFound: there is none.
            FormatError: it is neither a manifest nor an index.
        """
        if version in self._loaded:
            return self._loaded[version]
        descriptor, data = self.store.fetch_manifest(version)
        owner = f"the manifest {self.store.name}@{descriptor.digest}"
        limit = self.store.limits.manifest
        if descriptor.media_type in (MEDIA_TYPE_INDEX, MEDIA_TYPE_DOCKER_INDEX):
            found = ManifestOrIndex(descriptor, None, parse_document(Index, data, owner, limit))
        else:
            found = ManifestOrIndex(descriptor, parse_document(Manifest, data, owner, limit), None)
        self._loaded[version] = self._loaded[descriptor.digest] = found
        return found

    def config(self, found: ManifestOrIndex) -> bytes:
        """Read and verify the config object of a manifest.

        Raises:
            LimitError: it is larger than `Limits.config`.
        """
        assert found.manifest is not None
        descriptor = found.manifest.config
        if descriptor.digest not in self._configs:
            self._configs[descriptor.digest] = self.store.read_blob(descriptor, self.store.limits.config)
        return self._configs[descriptor.digest]

    def config_document(self, found: ManifestOrIndex) -> dict[str, Any]:
        """Return the config of a manifest as a dict; an image config has `os`, `architecture` and `variant` in it.

        Args:
            found: The manifest; an index has no config.

        Returns:
            The config, or an empty dict if `found` is an index or its config is not a JSON object.
        """
        if found.manifest is None:
            return {}
        data = self.config(found)
        try:
            document: Any = parse_json(data, "the config", len(data))
        except FormatError:
            return {}
        return document if isinstance(document, dict) else {}

    def contents(self, layer: Descriptor, *, whole: bool) -> LayerContents:
        """Load the content of a layer; see `ocibridge.volume.entries.contents`."""
        key = (layer.digest, whole)
        if key not in self._contents:
            self._contents[key] = contents(self.store, layer, whole=whole)
        return self._contents[key]

    def encoding(self, layer: Descriptor) -> Encoding:
        """Detect the encoding of a layer; see `ocibridge.volume.entries.encoding_of`."""
        if layer.digest not in self._encodings:
            self._encodings[layer.digest] = encoding_of(self.store, layer)
        return self._encodings[layer.digest]
