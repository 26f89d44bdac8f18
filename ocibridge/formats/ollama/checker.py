# SPDX-License-Identifier: Apache-2.0
"""An Ollama model in a store, checked against its own manifest and written nowhere."""

from __future__ import annotations

from ...errors import IntegrityError, LimitError
from ...io.content import BytesContent
from ...io.readers import Reader, chunks
from ...model import StoredModel
from ...paths import show
from ...settings import DEFAULT_LIMITS
from ..check import CheckSink
from .manifest import parse_ollama_manifest
from .paths import MANIFEST_PATH
from .reader import identity_of

_DAMAGED = "the artifact is damaged or incomplete; publish the model again"


class OllamaCheckSink(CheckSink):
    """A `CheckSink` that proves the identity of an Ollama model: every blob that its manifest names has come."""

    def __init__(self, stored: StoredModel) -> None:
        super().__init__(stored)
        self._owner = stored.origin.get("ollama.ref", "the model")
        self._identity = stored.identity
        self._manifest: bytes | None = None

    def write(self, path: str, size: int, reader: Reader, sha256: str | None = None) -> None:
        """Read one file to its end; see `CheckSink.write`."""
        if path == MANIFEST_PATH:
            if size > DEFAULT_LIMITS.manifest:
                raise LimitError(f"{show(path)} has {size} bytes, more than the {DEFAULT_LIMITS.manifest} accepted")
            self._manifest = b"".join(bytes(chunk) for chunk in chunks(reader, size + 1))
            reader = BytesContent(self._manifest).open()
        super().write(path, size, reader, sha256)

    def commit(self) -> str | None:
        """The identity, once every row of the manifest is held against the bytes that came.

        Raises:
            IntegrityError: a blob is missing, or the manifest is not the one that was published.
            FormatError: the manifest is malformed.
        """
        if self._manifest is None:
            raise IntegrityError(f"{show(MANIFEST_PATH)} of {self._owner} did not come", hint=_DAMAGED)
        identity = identity_of(self._manifest)
        if self._identity not in (None, identity):
            raise IntegrityError(
                f"the manifest of {self._owner} makes it {identity}, but it was published as {self._identity}",
                hint=_DAMAGED,
            )
        come = set(self.hashes.values())
        for part in parse_ollama_manifest(self._manifest, self._owner, DEFAULT_LIMITS.manifest).parts:
            if part.sha256 not in come:
                raise IntegrityError(
                    f"the blob {part.descriptor.digest} of the manifest of {self._owner} did not come", hint=_DAMAGED
                )
        return identity
