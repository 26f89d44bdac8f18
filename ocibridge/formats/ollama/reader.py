# SPDX-License-Identifier: Apache-2.0
"""An Ollama model as a model: every blob a file under its own digest, and the manifest verbatim."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from urllib.parse import quote

from ...errors import FormatError, IntegrityError, LimitError
from ...io.content import BytesContent, Content, read_all
from ...io.readers import read_full
from ...model import Model, ModelFile, Role
from ...oci import Descriptor
from ...paths import show
from .manifest import (
    WEIGHTS,
    OllamaBlob,
    OllamaConfig,
    ParsedManifest,
    parse_ollama_config,
    parse_ollama_manifest,
    strip_from,
)
from .metadata import Facts, gather
from .names import OllamaName
from .options import OllamaReadOptions
from .paths import MANIFEST_PATH, Placed, place

FORMAT = "ollama"

_LOCAL_PATH = re.compile(r"[/\\~.]|[A-Za-z]:[/\\]|file:", re.IGNORECASE)


def identity_of(manifest: bytes) -> str:
    """The identity of a model: `ollama:` and the hex sha256 of its manifest, whose start `ollama list` shows."""
    return f"{FORMAT}:{hashlib.sha256(manifest).hexdigest()}"


def read_ollama(
    manifest: bytes, name: OllamaName, blobs: Callable[[Descriptor], Content], options: OllamaReadOptions
) -> Model:
    """Read an Ollama model.

    Only headers and small metadata are read here. Each blob promises its digest, so that it need not be hashed before
    it is published; whoever reads it whole checks it.

    Args:
        manifest: The manifest's bytes.
        name: The name of the model.
        blobs: Gives the blob of a descriptor; called once for each file of the model.
        options: `strip_from` and `limits` count here.

    Returns:
        The manifest as `ollama/manifest.json`, the config, and one file for each layer, in the order of the manifest.

    Raises:
        FormatError: the manifest is malformed, has an unsafe or doubled name, or the model has no weights.
        IntegrityError: the config is not the blob that the manifest names.
        SourceError: a blob cannot be read.
        LimitError: the manifest is larger than `options.limits` admit.
    """
    return _Reader(manifest, name, blobs, options).model()


class _Reader:
    def __init__(
        self, manifest: bytes, name: OllamaName, blobs: Callable[[Descriptor], Content], options: OllamaReadOptions
    ) -> None:
        self._name = name
        self._owner = name.short
        self._limits = options.limits
        self._parsed: ParsedManifest = parse_ollama_manifest(manifest, self._owner, self._limits.manifest)
        self._manifest = strip_from(manifest, self._owner, self._limits.manifest) if options.strip_from else manifest
        self._warnings = list(_from_warnings(self._parsed, options.strip_from, self._manifest != manifest))
        self._blobs = blobs
        self._opened: dict[str, Content] = {}

    def model(self) -> Model:
        config = self._config()
        self._refuse_without_weights(config if isinstance(config, OllamaConfig) else None)
        placed = place(self._parsed, self._owner, self._is_container)
        self._warnings += _unknown_warnings(placed)
        contents = {each.path: self._blob(each.parts[0]) for each in placed}
        facts: Facts = gather(self._name, config, placed, contents)
        identity = identity_of(self._manifest)
        sha256 = identity.removeprefix(f"{FORMAT}:")
        copy = ModelFile(MANIFEST_PATH, Role.WEIGHT_CONFIG, BytesContent(self._manifest), sha256)
        return Model(
            format=FORMAT,
            files=(copy, *(_file(each, contents[each.path]) for each in placed)),
            identity=identity,
            info=facts.info,
            origin={
                "ollama.manifest_digest": f"sha256:{sha256}",
                "ollama.ref": str(self._name),
                **facts.origin,
            },
            warnings=(*self._warnings, *facts.warnings),
        )

    def _blob(self, part: OllamaBlob) -> Content:
        digest = part.descriptor.digest
        if digest not in self._opened:
            content = self._blobs(part.descriptor)
            if content.size != part.descriptor.size:
                raise IntegrityError(
                    f"{self._owner}: the blob {digest} has {content.size} bytes, the manifest says "
                    f"{part.descriptor.size}",
                    hint="the model is damaged: remove it and get it again",
                )
            self._opened[digest] = content
        return self._opened[digest]

    def _config(self) -> OllamaConfig | bytes | None:
        """The config object, or the bytes of the model's own configuration in a manifest of seed 004."""
        part = self._parsed.config
        if part is None:
            return None
        if part.descriptor.size > self._limits.config:
            raise LimitError(
                f"{self._owner}: the config has {part.descriptor.size} bytes, more than the {self._limits.config} "
                "accepted"
            )
        data = read_all(self._blob(part))
        if hashlib.sha256(data).hexdigest() != part.sha256:
            raise IntegrityError(
                f"{self._owner}: the config is not the blob {part.descriptor.digest} that the manifest names",
                hint="the model is damaged: remove it and get it again",
            )
        if part.index is not None:
            return data
        try:
            return parse_ollama_config(data, self._owner, self._limits.config)
        except FormatError as exc:
            self._warnings.append(f"{exc.message}; no metadata is read from it")
            return None

    def _refuse_without_weights(self, config: OllamaConfig | None) -> None:
        if any(part.kind in WEIGHTS for part in self._parsed.layers):
            return
        if config and (config.remote_host or config.remote_model):
            raise FormatError(
                f"{self._owner} runs on {show(config.remote_host or 'another host')}: it has no weights here",
                hint="there is nothing to publish; pull a model that runs locally",
            )
        raise FormatError(f"{self._owner} has no weights in its manifest", hint="pull or create the model again")

    def _is_container(self, part: OllamaBlob) -> bool:
        """Return whether the blob of a tensor is a safetensors file: the length of a header, and `{`."""
        start = bytearray(9)
        with self._blob(part).open() as reader:
            if read_full(reader, memoryview(start)) < len(start):
                return False
        return int.from_bytes(start[:8], "little") <= part.descriptor.size - 8 and start[8:] == b"{"


def _file(placed: Placed, content: Content) -> ModelFile:
    first = placed.parts[0]
    origin = {"ollama.mediatype": first.descriptor.media_type}
    positions = [str(part.index) for part in placed.parts if part.index is not None]
    if positions:
        origin["ollama.index"] = ",".join(positions)
    if first.name:
        # A name may have any character; an annotation should not.
        origin["ollama.name"] = quote(first.name, safe="/ !#$&'()*+,:;=?@[]")
    origin |= {f"ollama.{key}": first.params[key] for key in ("dtype", "shape") if key in first.params}
    return ModelFile(placed.path, placed.role, content, first.sha256, guessed=not placed.known, origin=origin)


def _from_warnings(manifest: ParsedManifest, strip: bool, changed: bool) -> Iterator[str]:
    paths = [part.from_ for part in manifest.parts if part.from_ and _LOCAL_PATH.match(part.from_)]
    if changed:
        yield (
            "the 'from' fields are left out of the manifest, as asked: the model gets another identity, and another ID "
            "in 'ollama list'"
        )
    elif paths and not strip:
        yield (
            f"the manifest is published with the local path {show(paths[0])} in a 'from' field (local paths: "
            f"{len(paths)}); leave such fields out with --strip-from, which changes the model's ID"
        )


def _unknown_warnings(placed: list[Placed]) -> Iterator[str]:
    for each in placed:
        if not each.known:
            media_type = each.parts[0].descriptor.media_type
            yield f"the layer type {show(media_type)} means nothing to Ollama today; it is stored as {each.path}"
