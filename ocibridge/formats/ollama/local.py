# SPDX-License-Identifier: Apache-2.0
"""Ollama's models folder: `blobs/sha256-<hex>` and `manifests/<host>/<namespace>/<model>/<tag>`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from ... import settings
from ...errors import IntegrityError, InvalidReference, LimitError, SourceError, reading
from ...io.content import Content, FileContent
from ...io.readers import chunks
from ...model import Model
from ...oci import Descriptor
from .names import OllamaName, parse_ollama_name
from .options import OllamaReadOptions
from .reader import read_ollama

_SERVICE = Path("/usr/share/ollama/.ollama/models")
_NAMES_SHOWN = 8


def models_dir() -> Path:
    """The models folder: `$OLLAMA_MODELS`, else `~/.ollama/models`, else that of the Linux service if it exists."""
    explicit = settings.ollama_models()
    if explicit:
        return explicit
    own = Path.home() / ".ollama" / "models"
    return _SERVICE if not own.exists() and _SERVICE.exists() else own


def read_local(name: str, options: OllamaReadOptions, root: Path | None = None) -> Model:
    """Read a model from the local store.

    Example:
        >>> read_local("llama3:8b", OllamaReadOptions())  # doctest: +SKIP

    Args:
        name: `[[HOST/]NAMESPACE/]MODEL[:TAG]`.
        options: See `read_ollama`.
        root: The models folder; None takes `models_dir`.

    Raises:
        InvalidReference: the name breaks the rules.
        SourceError: there is no such model, or one of its blobs is missing.
        FormatError: it breaks the rules of the format; see also `read_ollama`.
        IntegrityError: a blob has another size than its manifest says.
    """
    store = LocalOllama(root or models_dir())
    found = store.resolve(parse_ollama_name(name))
    return read_ollama(store.manifest(found, options.limits.manifest), found, store.blob, options)


class LocalOllama:
    """A models folder, read only.

    Args:
        root: The folder, which need not exist.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def resolve(self, name: OllamaName) -> OllamaName:
        """`name` in the spelling that the store has for it; each part it does not have stays as it is.

        Ollama's names differ in more than their case: of two parts that do not, the exact one wins, then the first.
        """
        folder = self.root / "manifests"
        spelled = []
        for part in name.parts:
            present = _listing(folder)
            exact = part if part in present else None
            found = exact or next((each for each in present if each.casefold() == part.casefold()), part)
            spelled.append(found)
            folder /= found
        host, namespace, model, tag = spelled
        return OllamaName(model, tag, namespace, host)

    def manifest_path(self, name: OllamaName) -> Path:
        """The path of the manifest with exactly this name."""
        return self.root.joinpath("manifests", *name.parts)

    def manifest(self, name: OllamaName, limit: int) -> bytes:
        """The manifest of exactly this name.

        Args:
            name: From `resolve`.
            limit: Largest size accepted, in bytes.

        Raises:
            SourceError: there is none, or it cannot be read.
            LimitError: it is larger.
        """
        path = self.manifest_path(name)
        if not path.is_file():
            raise SourceError(f"there is no Ollama model {name.short} in {self.root}", hint=self._hint(name))
        with reading(path), open(path, "rb") as file:
            data = file.read(limit + 1)
        if len(data) > limit:
            raise LimitError(f"{path} has more than the {limit} bytes accepted")
        return data

    def names(self) -> Iterator[OllamaName]:
        """Every model, sorted."""
        base = self.root / "manifests"
        for host in _listing(base):
            for namespace in _listing(base / host):
                for model in _listing(base / host / namespace):
                    for tag in _listing(base / host / namespace / model):
                        try:
                            yield OllamaName(model, tag, namespace, host)
                        except InvalidReference:
                            continue

    def blob_path(self, digest: str) -> Path | None:
        """The path of a blob (Ollama accepts `sha256-<hex>` and `sha256:<hex>`), or None."""
        usual = self.root / "blobs" / digest.replace(":", "-")
        return next((path for path in (usual, usual.with_name(digest)) if path.is_file()), None)

    def blob(self, descriptor: Descriptor) -> Content:
        """A blob; its size is checked, its bytes are not.

        Raises:
            SourceError: it is missing.
            IntegrityError: it has another size.
        """
        path = self.blob_path(descriptor.digest)
        if path is None:
            raise SourceError(
                f"the blob {descriptor.digest} is missing from {self.root / 'blobs'}",
                hint="complete the model with 'ollama pull', or create it again",
            )
        content = FileContent(path, lasting=True)
        if content.size != descriptor.size:
            raise IntegrityError(
                f"{path} has {content.size} bytes, its manifest says {descriptor.size}",
                hint="remove the model and pull or create it again",
            )
        return content

    def verified(self, descriptor: Descriptor) -> bool:
        """Return whether the store has this blob with the bytes it should have; reads all of them."""
        path = self.blob_path(descriptor.digest)
        content = FileContent(path) if path else None
        if not content or content.size != descriptor.size:
            return False
        digest = hashlib.sha256()
        with content.open() as reader:
            for chunk in chunks(reader):
                digest.update(chunk)
        return f"sha256:{digest.hexdigest()}" == descriptor.digest

    def _hint(self, name: OllamaName) -> str:
        known = [each.short for each in self.names()]
        if not known:
            return "say where the models are with OLLAMA_MODELS"
        same = [each for each in known if name.model.casefold() in each.casefold()]
        return f"there is {', '.join((same or known)[:_NAMES_SHOWN])}"


def _listing(folder: Path) -> list[str]:
    """Names in a folder, sorted; none where there is no folder."""
    if not folder.is_dir():
        return []
    with reading(folder):
        return sorted(each.name for each in folder.iterdir())
