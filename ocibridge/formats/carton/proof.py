# SPDX-License-Identifier: Apache-2.0
"""The identity of a carton from the digests of its files alone: none of them has to be read."""

from __future__ import annotations

import hashlib
from collections.abc import KeysView, Mapping

from ...errors import IntegrityError
from ...model import StoredModel
from ...paths import show
from ...settings import Limits
from ..format import Blobs, Proof
from .manifest import parse_manifest
from .names import MANIFEST, UNLISTED
from .thin import check_single_files

_DAMAGED = "the artifact is damaged or was changed: publish the carton again"


def prove(stored: StoredModel, blobs: Blobs, limits: Limits) -> Proof:
    """Hold the sha256 of every file of a carton against its MANIFEST.

    MANIFEST is written again from paths and hashes. Where that gives its very bytes, as for every carton that the
    carton client has packed, it need not be read; else (CRLF line ends, another order, files without a row) it is.

    Args:
        stored: The carton; the sha256 of its files must be those of the blobs that hold them.
        blobs: Its files.
        limits: See `ocibridge.settings.Limits`.

    Raises:
        FormatError: there is no MANIFEST, or it is malformed.
        UsageError: it is stored as one whole archive.
        IntegrityError: a file is missing, or not the one of MANIFEST; or the recorded identity is another one.
    """
    owner = blobs.owner
    check_single_files(stored, owner, "a proof from the manifest alone")
    found = {file.path: file.sha256 for file in stored.files}
    manifest_hash = found[MANIFEST]
    files = {path: sha256 for path, sha256 in found.items() if path not in UNLISTED}
    text = "".join(f"{path}={sha256}\n" for path, sha256 in files.items())
    identity = f"carton:{manifest_hash}"
    rows: KeysView[str] = files.keys()
    size, how = 0, "rebuilt from the digests of the layers"
    if hashlib.sha256(text.encode()).hexdigest() != manifest_hash:
        data = blobs.read(MANIFEST)
        rows, size, how = (
            _checked(files, data, owner, limits),
            len(data),
            "fetched, each row being the digest of a layer",
        )
    if stored.identity not in (None, identity):
        raise IntegrityError(f"{owner} is {identity}, but was published as {stored.identity}", hint=_DAMAGED)
    return Proof(
        identity,
        len(rows),
        size,
        (f"the identity is {identity}: its MANIFEST, {how}, has that sha256 and {len(rows)} rows",),
        tuple(
            f"{show(path)} is not in MANIFEST, so the identity says nothing about it"
            for path in sorted(files.keys() - rows)
        ),
    )


def _checked(files: Mapping[str, str | None], manifest: bytes, owner: str, limits: Limits) -> KeysView[str]:
    """The rows of MANIFEST, each of which is the digest of a layer."""
    rows = parse_manifest(manifest, owner, limits.metadata).rows
    for path, sha256 in rows.items():
        if path not in files:
            raise IntegrityError(f"{owner} has no layer for the file {show(path)} of its MANIFEST", hint=_DAMAGED)
        if files[path] != sha256:
            raise IntegrityError(
                f"{owner}: the layer of {show(path)} is sha256:{files[path]}, its MANIFEST gives {sha256}",
                hint=_DAMAGED,
            )
    return rows.keys()
