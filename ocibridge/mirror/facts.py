# SPDX-License-Identifier: Apache-2.0
"""Properties of a model for the filters of a job, from its manifest and config."""

from __future__ import annotations

from ..errors import FormatError
from ..oci import Reference
from ..operations.artifacts import fetch_artifact
from ..stores.base import Store
from ..transfer.graph import Graph, fetch_node
from .jobs.filters import Traits


def traits_of(store: Store, reference: Reference) -> Traits:
    """Return the properties of an artifact; for anything but a model, only type and size.

    Raises:
        NotFound: there is nothing of that name.
        IntegrityError: it does not have its digest.
    """
    root = fetch_node(store, reference.version)
    size = sum(blob.size for blob in Graph(store, root).blobs())
    try:
        artifact = fetch_artifact(store, reference).artifact
    except FormatError:
        return Traits(artifact_type=root.artifact_type, size=size)
    info = artifact.model.info
    return Traits(
        artifact_type=root.artifact_type,
        dialect=artifact.dialect,
        roles=frozenset(layer.role.value for layer in artifact.layers),
        size=size,
        licences=info.licenses,
        architecture=info.architecture,
    )
