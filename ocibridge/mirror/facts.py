# SPDX-License-Identifier: Apache-2.0
"""What the filters of a job ask about a model, from its manifest and config."""

from __future__ import annotations

from ..errors import FormatError
from ..oci import Reference
from ..operations.artifacts import fetch_artifact
from ..stores.base import Store
from ..transfer.graph import Graph, read_node
from .jobs.filters import Traits


def traits_of(store: Store, reference: Reference) -> Traits:
    """What is known about an artifact; of what is no model only its type and size.

    Raises:
        NotFound: there is nothing of that name.
        IntegrityError: it does not have its digest.
    """
    root = read_node(store, reference.version)
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
