# SPDX-License-Identifier: Apache-2.0
"""Address of an Ollama model, in the local store or in a registry with Ollama's protocol."""

from __future__ import annotations

from collections.abc import Callable

from ...errors import UsageError
from ...io.content import Content
from ...model import Model, StoredModel
from ...oci import Descriptor, RegistryReference
from ..base import Sink
from ..format import Address, AnyFormat
from ..options import WriteOptions
from .names import OllamaName, parse_ollama_name, parse_ollama_url
from .options import OllamaReadOptions

LOCAL = "ollama:"
REMOTE = "ollama://"


class OllamaAddress(Address[OllamaReadOptions, WriteOptions]):
    """A model of Ollama.

    Args:
        form: The format.
        name: Its name.
        remote: Whether it is in a registry, and not in the local store.
    """

    def __init__(self, form: AnyFormat, name: OllamaName, remote: bool) -> None:
        self.format = form
        self.name = name
        # A registry of Ollama is asked for the manifest by tag and for blobs, and for nothing else: it has no more.
        self.repository = RegistryReference(name.host, name.repository, name.tag) if remote else None
        self.media_types = (form.companion,) if form.companion else ()

    def __str__(self) -> str:
        return f"{REMOTE}{self.name}" if self.repository else f"{LOCAL}{self.name.short}"

    def read(self, options: OllamaReadOptions) -> Model:
        """See `read_local`."""
        from .local import read_local

        return read_local(str(self.name), options)

    def read_manifest(
        self, manifest: bytes, blobs: Callable[[Descriptor], Content], options: OllamaReadOptions
    ) -> Model:
        """See `read_ollama`."""
        from .reader import read_ollama

        return read_ollama(manifest, self.name, blobs, options)

    def sink(self, stored: StoredModel, options: WriteOptions) -> Sink:
        """The sink for the local store; see `OllamaSink`.

        Raises:
            UsageError: the name is in a registry.
        """
        if self.repository:
            raise UsageError(
                f"{self} is in a registry; a pull writes into the local store",
                hint=f"write {LOCAL}NAME[:TAG]; "
                "'ocibridge push SOURCE HOST/REPOSITORY --also ollama' publishes for Ollama",
            )
        from .writer import OllamaSink

        return OllamaSink(self.name, stored, options)


def parse_address(form: AnyFormat, text: str) -> OllamaAddress:
    """Parse `ollama:[[HOST/]NAMESPACE/]MODEL[:TAG]` or `ollama://HOST/NAMESPACE/MODEL[:TAG]`.

    Raises:
        InvalidReference: it is neither.
    """
    if text.startswith(REMOTE):
        return OllamaAddress(form, parse_ollama_url(text), True)
    return OllamaAddress(form, parse_ollama_name(text.removeprefix(LOCAL)), False)
