# SPDX-License-Identifier: Apache-2.0
"""Ollama models as sources, and the local store as a target: what ties their format to the stores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ..errors import FormatError, UsageError
from ..formats.base import ReadOptions, StoredModel, WriteOptions
from ..formats.ollama import (
    OllamaName,
    OllamaSink,
    original_manifest,
    parse_ollama_name,
    parse_ollama_url,
    read_local,
    read_ollama,
)
from ..layers import Encoding
from ..model import Model, ModelFile
from ..oci import MEDIA_TYPE_DOCKER_MANIFEST, Reference, RegistryReference, parse_reference
from ..settings import OLLAMA_SUFFIX
from ..stores.base import Store
from ..stores.content import BlobContent
from ..stores.opening import open_store
from .artifacts import Fetched
from .reports import AlsoReport
from .sources import other_side

if TYPE_CHECKING:
    from ..stores.registry import Hosts, RegistryOptions

LOCAL = "ollama:"
REMOTE = "ollama://"


@dataclass(frozen=True, slots=True)
class OllamaSource:
    """A model of Ollama.

    Attributes:
        name: Its name.
        remote: Whether it is in a registry that speaks Ollama's dialect, and not in the local store.
    """

    name: OllamaName
    remote: bool

    def __str__(self) -> str:
        return f"{REMOTE}{self.name}" if self.remote else f"{LOCAL}{self.name.short}"


def parse_ollama(text: str) -> OllamaSource:
    """Parse `ollama:[[HOST/]NAMESPACE/]MODEL[:TAG]` or `ollama://HOST/NAMESPACE/MODEL[:TAG]`.

    Raises:
        InvalidReference: it is neither.
    """
    if text.startswith(REMOTE):
        return OllamaSource(parse_ollama_url(text), True)
    return OllamaSource(parse_ollama_name(text.removeprefix(LOCAL)), False)


@contextmanager
def open_ollama(
    source: OllamaSource,
    options: ReadOptions,
    registry: RegistryOptions | None = None,
    hosts: Hosts | None = None,
) -> Iterator[tuple[Model, Store | None]]:
    """Read a model; its files can be opened inside the block.

    A registry is asked for the manifest by tag and for blobs, and for nothing else: Ollama's has no more.

    Args:
        source: The model.
        options: See `read_ollama`.
        registry: How to talk to the registry.
        hosts: What is known of registry hosts, which all stores of a command share.

    Returns:
        The model, and the repository that its blobs are in, if it is one.

    Raises:
        SourceError: the local store does not have it.
        StoreError: the registry does not have it, or cannot be reached.
        FormatError: it breaks the rules of the format.
    """
    name = source.name
    if not source.remote:
        yield read_local(str(name), options), None
        return
    reference = RegistryReference(name.host, name.repository)
    with open_store(reference, registry, hosts=hosts, accept=(MEDIA_TYPE_DOCKER_MANIFEST,)) as store:
        _, manifest = store.fetch_manifest(name.tag)
        yield read_ollama(manifest, name, partial(BlobContent, store), options), store


def source_registry(
    source: OllamaSource, target: Reference | None, registry: RegistryOptions | None
) -> RegistryOptions | None:
    """The options for the registry of a source; see `other_side`."""
    place = RegistryReference(source.name.host, source.name.repository)
    return registry if target is None else other_side(place, target, registry)


def ollama_sink(dest: str, stored: StoredModel, options: WriteOptions) -> OllamaSink:
    """The sink for `ollama:NAME`, in the local store.

    Raises:
        UsageError: `dest` is in a registry.
        FormatError: the stored model is none that Ollama could run.
        DestinationError: there is another model of that name, or the store cannot be written.
    """
    target = parse_ollama(dest)
    if target.remote:
        raise UsageError(
            f"{dest} is in a registry; a pull writes into the local store",
            hint=f"write {LOCAL}NAME[:TAG]; 'ocibridge push SOURCE HOST/REPOSITORY --also ollama' publishes for Ollama",
        )
    return OllamaSink(target.name, stored, options)


@dataclass(frozen=True, slots=True)
class Companion:
    """The model's own manifest, to be published beside the artifact.

    Attributes:
        data: Its bytes.
        reference: Where it goes.
    """

    data: bytes
    reference: Reference

    def publish(self, store: Store) -> AlsoReport:
        """Store it; the blobs that it names have to be there."""
        done = store.push_manifest(self.data, MEDIA_TYPE_DOCKER_MANIFEST, self.reference.tag)
        return AlsoReport(kind="ollama", reference=str(self.reference), digest=done.digest)


def companion(model: Model, target: Reference) -> Companion:
    """What `--also ollama` publishes: the original manifest, as `<tag>-ollama` in the same repository.

    Raises:
        FormatError: the model has no manifest that registries take.
        InvalidReference: the tag would be too long.
    """
    return Companion(original_manifest(model), parse_reference(f"{target.name}:{target.version}{OLLAMA_SUFFIX}"))


def stored_companion(fetched: Fetched, store: Store, target: Reference) -> Companion:
    """What `--also ollama` would have published beside an artifact that is in a store.

    Raises:
        FormatError: the artifact is no model of Ollama with a layer for each of its blobs.
        InvalidReference: the tag would be too long.
    """
    artifact = fetched.artifact
    if any(layer.encoding is not Encoding.RAW for layer in artifact.layers):
        raise FormatError(
            f"{target} has files in tar layers, and Ollama needs every blob as a layer of its own",
            hint="push the model with --layers raw-files",
        )
    files = tuple(
        ModelFile(entry.path, layer.role, BlobContent(store, layer.descriptor), entry.sha256)
        for layer in artifact.layers
        for entry in layer.files
    )
    return companion(Model(artifact.model.format or "", files, artifact.model.identity), target)
