# SPDX-License-Identifier: Apache-2.0
"""The identity of a carton from the digests of its files alone: none of them has to be read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from ...errors import FormatError, IntegrityError
from ...model import StoredModel
from ...paths import show
from ...settings import DEFAULT_LIMITS, Limits
from .manifest import parse_manifest
from .names import MANIFEST, UNLISTED

_DAMAGED = "the artifact is damaged or was changed: publish the carton again"


@dataclass(frozen=True, slots=True)
class Proof:
    """What has been proven.

    Attributes:
        identity: The identity.
        rows: Number of rows in MANIFEST, each of which has its file.
        rebuilt: Whether not even MANIFEST was read.
        unlisted: Files without a row, which the identity says nothing about.
    """

    identity: str
    rows: int
    rebuilt: bool
    unlisted: tuple[str, ...] = ()


def prove(
    stored: StoredModel, read_manifest: Callable[[], bytes], owner: str, limits: Limits = DEFAULT_LIMITS
) -> Proof:
    """Hold the sha256 of every file of a carton against its MANIFEST.

    MANIFEST is written again from paths and hashes. Where that gives its very bytes, as for every carton that the
    carton client has packed, it need not be read; else (CRLF line ends, another order, files without a row) it is.

    Args:
        stored: The carton; the sha256 of its files must be those of the blobs that hold them.
        read_manifest: Reads MANIFEST, verified against its own sha256.
        owner: What it is, for messages.
        limits: See `ocibridge.settings.Limits`.

    Raises:
        FormatError: there is no MANIFEST, or it is malformed.
        IntegrityError: a file is missing, or not the one of MANIFEST; or the recorded identity is another one.
    """
    found = {file.path: file.sha256 for file in stored.files}
    manifest_hash = found.get(MANIFEST)
    if manifest_hash is None:
        raise FormatError(f"{owner} has no MANIFEST, so it is no carton", hint="verify it as what it is")
    files = {path: sha256 for path, sha256 in found.items() if path not in UNLISTED}
    text = "".join(f"{path}={sha256}\n" for path, sha256 in files.items())
    proof = Proof(f"carton:{manifest_hash}", len(files), rebuilt=True)
    if hashlib.sha256(text.encode()).hexdigest() != manifest_hash:
        rows = parse_manifest(read_manifest(), owner, limits.metadata).rows
        for path, sha256 in rows.items():
            if path not in files:
                raise IntegrityError(f"{owner} has no layer for the file {show(path)} of its MANIFEST", hint=_DAMAGED)
            if files[path] != sha256:
                raise IntegrityError(
                    f"{owner}: the layer of {show(path)} is sha256:{files[path]}, its MANIFEST gives {sha256}",
                    hint=_DAMAGED,
                )
        unlisted = tuple(sorted(files.keys() - rows.keys()))
        proof = Proof(proof.identity, len(rows), rebuilt=False, unlisted=unlisted)
    if stored.identity not in (None, proof.identity):
        raise IntegrityError(f"{owner} is {proof.identity}, but was published as {stored.identity}", hint=_DAMAGED)
    return proof
