# SPDX-License-Identifier: Apache-2.0
"""`pull --thin`: a carton whose large files stay in the registry."""

from __future__ import annotations

from pathlib import Path

from ..errors import FormatError, UsageError
from ..formats.base import Sink, WriteOptions
from ..formats.carton.fetch import check_open
from ..formats.carton.manifest import parse_manifest
from ..formats.carton.names import EXACT, MANIFEST
from ..formats.carton.thin import ThinCartonSink, linked_files, links_file
from ..layers import Encoding, StoredLayer
from ..oci import Reference, RegistryReference
from ..stores.base import Store
from ..stores.registry import RegistryOptions
from ..stores.registry.options import base_url
from .artifacts import Fetched


def thin_sink(
    reference: Reference,
    fetched: Fetched,
    store: Store,
    dest: Path,
    options: WriteOptions,
    registry: RegistryOptions | None = None,
) -> tuple[Sink, list[StoredLayer], str]:
    """Where a thin carton goes, the layers that have to be fetched for it, and what its user has to know.

    Args:
        reference: The artifact: in a registry that gives blobs to everybody.
        fetched: Its documents.
        store: Where it is.
        dest: The `.carton` file.
        options: See `WriteOptions`.
        registry: How the registry is reached.

    Raises:
        UsageError: the artifact is in no registry, or not a carton with a layer for each file.
        SourceError: the registry does not give blobs without a login.
    """
    if not isinstance(reference, RegistryReference):
        raise UsageError(
            f"a thin carton links to a registry, and {reference} is in none", hint="leave out --thin, or push it to one"
        )
    artifact, owner = fetched.artifact, str(reference)
    check_raw(fetched, owner, "a thin carton")
    layers = {each.files[0].path: each for each in artifact.layers}
    manifest = parse_manifest(
        store.read_blob(layers[MANIFEST].descriptor, options.limits.metadata), owner, options.limits.metadata
    )
    linked = linked_files(artifact.model, manifest.rows, owner)
    start = f"{base_url(reference.host, registry)}/v2/{reference.repository}/blobs"

    def url_of(sha256: str) -> str:
        return f"{start}/sha256:{sha256}"

    for sha256 in sorted(set(linked.values()))[:1]:
        check_open(url_of(sha256), reference.host)
    sink = ThinCartonSink(dest, artifact.model, options, linked, links_file(linked, url_of))
    size = sum(layers[path].descriptor.size for path in linked)
    warning = (
        f"{len(linked)} files ({size} bytes) are only linked, to {start}: the carton needs that registry whenever it "
        "is loaded, and the carton client does not check what a link gives it"
    )
    return sink, [each for path, each in layers.items() if path not in linked], warning


def check_raw(fetched: Fetched, owner: str, what: str) -> None:
    """Refuse what is no carton with a layer for each of its files.

    Args:
        fetched: The artifact.
        owner: What it is, for messages.
        what: What cannot be had without.

    Raises:
        FormatError: it is no carton.
        UsageError: it is one in other layers.
    """
    artifact = fetched.artifact
    if artifact.model.format != "carton":
        raise FormatError(f"{owner} is no carton", hint="leave out the option; it is for cartons")
    if EXACT in artifact.model.origin:
        raise UsageError(
            f"{owner} carries one whole archive, and {what} needs a layer for each file",
            hint="push the carton with --layers raw-files, and without --exact",
        )
    if any(each.encoding is not Encoding.RAW for each in artifact.layers):
        raise UsageError(
            f"{owner} has tar layers, and {what} needs each file as a layer of its own",
            hint="push the carton with --layers raw-files",
        )
    if not any(each.path == MANIFEST for each in artifact.model.files):
        raise FormatError(f"{owner} has no MANIFEST, so it is no carton", hint="leave out the option")
