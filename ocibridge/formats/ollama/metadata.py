# SPDX-License-Identifier: Apache-2.0
"""Metadata of an Ollama model, from its config, GGUF headers, safetensors headers and parameters."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from ...errors import FormatError
from ...io.content import Content, read_all
from ...model import ModelInfo
from ...oci import parse_json
from ...settings import MiB
from ..facts import param_size, precision, spdx, split_file_type
from ..gguf import GgufHeader, read_gguf
from ..safetensors import MAX_WORD, read_safetensors
from .manifest import OllamaConfig
from .names import OllamaName
from .paths import Placed

_NUMBER = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,12})?)([KMBT]?)", re.IGNORECASE)
_SHAPE = re.compile(r"\[?\s*([0-9]{1,20}(?:\s*,\s*[0-9]{1,20})*)?\s*\]?")
_FORMATS = {"gguf": "gguf", "safetensors": "safetensors", "safetensor": "safetensors"}
MAX_TEXT = 1000
"""Characters of a metadata value above which it is left where it is."""


@dataclass(slots=True)
class Facts:
    """Metadata found.

    Attributes:
        info: See `ocibridge.model.ModelInfo`.
        origin: See `ocibridge.model.Model`.
        warnings: What could not be read.
    """

    info: ModelInfo = field(default_factory=ModelInfo)
    origin: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def gather(
    name: OllamaName,
    config: OllamaConfig | bytes | None,
    placed: Iterable[Placed],
    contents: Mapping[str, Content],
) -> Facts:
    """Gather the facts about a model; headers that cannot be read become warnings.

    Args:
        name: Its name.
        config: The config object, or the bytes of the model's own configuration (seed 004).
        placed: Its files.
        contents: Their bytes, by path; only headers are read.

    Raises:
        SourceError: a file cannot be read.
    """
    found = Facts()
    placed = list(placed)
    headers = []
    tensors = _Tensors()
    for each in placed:
        kind = each.parts[0].kind
        try:
            if kind == "model":
                headers.append(read_gguf(contents[each.path], each.path))
            elif kind == "tensor":
                tensors.add(each, contents[each.path])
        except FormatError as exc:
            found.warnings.append(f"{exc.message}; no metadata is read from it")
    own = config if isinstance(config, OllamaConfig) else OllamaConfig()
    native = _native(config if isinstance(config, bytes) else contents.get("config.json"))
    info = _from_gguf(headers, found.origin) if headers else tensors.info()
    words = split_file_type(_text(own.file_type))
    typed = next((each.parts[0].params.get("type") for each in placed if each.parts[0].kind == "config"), None)
    found.info = ModelInfo(
        name=name.model,
        title=info.title,
        vendor=info.vendor,
        version=info.version,
        licenses=info.licenses,
        family=info.family or _text(own.model_family) or _text(native.get("model_type")),
        format=_format(own.model_format or typed or "", placed),
        param_size=info.param_size or _param_size(own.model_type),
        precision=info.precision or (None if info.quantization else words[0]),
        quantization=info.quantization or (None if info.precision else words[1]),
    )
    return found


def _from_gguf(headers: list[GgufHeader], origin: dict[str, str]) -> ModelInfo:
    """The words of the config for the shards of one model; all but the number of parameters is in the first."""
    first = headers[0]
    facts = {
        "gguf.architecture": first.architecture,
        "gguf.context_length": first.context_length,
        "gguf.embedding_length": first.embedding_length,
        "gguf.file_type": first.file_type,
        "gguf.size_label": first.size_label,
    }
    origin |= {key: str(value) for key, value in facts.items() if value is not None and _text(str(value))}
    parameters = sum(header.parameters or 0 for header in headers)
    licence = spdx(first.license or "")
    words = split_file_type(first.file_type)
    return ModelInfo(
        title=_text(first.name),
        vendor=_text(first.text("general.organization")),
        version=_text(first.text("general.version")),
        licenses=(licence,) if licence else (),
        family=_text(first.architecture),
        param_size=param_size(parameters),
        precision=words[0],
        quantization=words[1],
    )


class _Tensors:
    """Adds up tensor layers, whichever form they have."""

    def __init__(self) -> None:
        self._elements: dict[str, int] = {}
        self._quantization: str | None = None

    def add(self, placed: Placed, content: Content) -> None:
        params = placed.parts[0].params
        if placed.path.endswith(".safetensors"):
            header = read_safetensors(content, placed.path)
            for dtype, count in header.elements.items():
                self._count(dtype, count)
            self._quantization = self._quantization or _text(header.metadata.get("quant_type"))
        elif "dtype" in params and "shape" in params:
            match = _SHAPE.fullmatch(params["shape"])
            if not match:
                raise FormatError(f"{placed.path} has the shape {params['shape']!r}, which is no list of numbers")
            count = math.prod(int(each) for each in (match[1] or "1").split(","))
            if count > MAX_WORD:
                raise FormatError(f"{placed.path} claims more elements than any file can hold")
            self._count(params["dtype"].upper(), count)

    def info(self) -> ModelInfo:
        if self._quantization:
            return ModelInfo(quantization=self._quantization)  # elements are packed: they are no parameters
        return ModelInfo(param_size=param_size(sum(self._elements.values())), precision=precision(self._elements))

    def _count(self, dtype: str, count: int) -> None:
        self._elements[dtype] = self._elements.get(dtype, 0) + count


def _native(config: bytes | Content | None) -> dict[str, Any]:
    """The model's own configuration, as its makers wrote it."""
    if config is None or (not isinstance(config, bytes) and config.size > MiB):
        return {}
    data = config if isinstance(config, bytes) else read_all(config)
    try:
        found = parse_json(data, "the config", len(data))
    except FormatError:
        return {}
    return found if isinstance(found, dict) else {}


def _format(given: str, placed: list[Placed]) -> str | None:
    if given.lower() in _FORMATS:
        return _FORMATS[given.lower()]
    kinds = {each.parts[0].kind for each in placed}
    return "safetensors" if "tensor" in kinds else "gguf" if "model" in kinds else None


def _param_size(model_type: str) -> str | None:
    """`136.73M`, as Ollama writes it, in the words of the config schema: `136.7M`."""
    match = _NUMBER.fullmatch(model_type)
    if not match:
        return None
    power = " KMBT".index(match[2].upper() or " ")
    return param_size(int(Decimal(match[1]) * 1000**power))


def _text(value: Any) -> str | None:
    usable = isinstance(value, str) and 0 < len(value) <= MAX_TEXT and value.isprintable()
    return value if usable and value != "unknown" else None
