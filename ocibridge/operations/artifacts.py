# SPDX-License-Identifier: Apache-2.0
"""Fetching what a manifest says, before any layer moves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..dialects.base import StoredArtifact
from ..dialects.reading import choose_manifest, parse_manifest, read_artifact
from ..errors import NetworkError, OcibridgeError
from ..layers import StoredLayer
from ..oci import MEDIA_TYPE_DOCKER_INDEX, MEDIA_TYPE_INDEX, Descriptor, Index, Reference, parse_document
from ..stores.base import Store
from ..stores.missing import naming_tags


class Fetched(NamedTuple):
    """An artifact, and its documents as they are stored.

    Attributes:
        descriptor: Descriptor of the manifest.
        artifact: What it says.
        data: The manifest, byte for byte.
        config: The config object, byte for byte.
    """

    descriptor: Descriptor
    artifact: StoredArtifact
    data: bytes
    config: bytes


def fetch_artifact(store: Store, reference: Reference) -> Fetched:
    """Manifest and config of the model that `reference` names; an index is followed to the one model in it.

    Raises:
        NotFound: there is nothing of that name.
        FormatError: it is no model, or a malformed one.
        IntegrityError: manifest or config do not have their digests.
    """
    with naming_tags(store, reference.version):
        found = store.fetch_manifest(reference.version)
    return interpret(store, reference, *found)


def interpret(store: Store, reference: Reference, descriptor: Descriptor, data: bytes) -> Fetched:
    """The model of a manifest or index that has been fetched; see `fetch_artifact`."""
    owner = str(reference)
    if descriptor.media_type in (MEDIA_TYPE_INDEX, MEDIA_TYPE_DOCKER_INDEX):
        index = parse_document(Index, data, owner, store.limits.manifest)
        descriptor, data = store.fetch_manifest(choose_manifest(index, owner).digest)
    manifest = parse_manifest(data, owner, store.limits)
    config = store.read_blob(manifest.config, store.limits.config)
    return Fetched(descriptor, read_artifact(manifest, config, owner, store.limits), data, config)


def stored_layers(store: Store, reference: Reference) -> Sequence[StoredLayer]:
    """The layers of the model that `reference` names now, their files as they are called in there.

    There are none where it names no model that can be read.

    Raises:
        NetworkError: the store cannot be reached.
    """
    try:
        # That there is no such tag yet is usual here, so nobody is asked which there are.
        layers = interpret(store, reference, *store.fetch_manifest(reference.version)).artifact.layers
        return [each._replace(files=each.members, prefix="") for each in layers]
    except NetworkError:
        raise
    except OcibridgeError:
        return ()
