# SPDX-License-Identifier: Apache-2.0
"""Operations that need each file of a model as a blob: thin archives, and proofs from a manifest alone."""

from __future__ import annotations

from ..errors import FormatError, UsageError
from ..formats.format import AnyFormat, Blobs
from ..formats.registry import format_named
from ..layers import Encoding
from ..oci import Reference, RegistryReference
from ..stores.base import Store
from ..stores.registry import RegistryOptions
from ..stores.registry.options import base_url
from .artifacts import Fetched


def blobs_of(
    reference: Reference, fetched: Fetched, store: Store, what: str, registry: RegistryOptions | None = None
) -> tuple[AnyFormat, Blobs]:
    """The format of an artifact that has each file as a raw layer, and its files.

    Args:
        reference: The artifact.
        fetched: Its documents.
        store: Where it is.
        what: What needs them, for messages, such as `--thin`.
        registry: How the registry is reached.

    Raises:
        FormatError: its format is not known.
        UsageError: a layer is a tar.
    """
    artifact, owner = fetched.artifact, str(reference)
    found = format_named(artifact.model.format)
    if found is None:
        raise FormatError(f"{owner} is of no format that is known here", hint=f"leave out {what}")
    if any(each.encoding is not Encoding.RAW for each in artifact.layers):
        raise UsageError(
            f"{owner} has tar layers, and {what} needs each file as a layer of its own",
            hint="push the model with --layers raw-files",
        )
    layers = {each.files[0].path: each.descriptor for each in artifact.layers}
    host, start = "", ""
    if isinstance(reference, RegistryReference):
        host = reference.host
        start = f"{base_url(host, registry)}/v2/{reference.repository}/blobs"
    limit = store.limits.metadata
    return found, Blobs(owner, host, lambda path: store.read_blob(layers[path], limit), start)
