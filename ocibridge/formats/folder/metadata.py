# SPDX-License-Identifier: Apache-2.0
"""Metadata of a folder, from headers of weights, `config.json` and the front matter of the README.

Where sources disagree, people win over machines: the README, then the configuration, then the headers; precision and
parameters come from the headers, which cannot be wrong about them. What is malformed is a warning, never an error, and
what is too long, has control characters or is of another type is not there. A folder's own name says nothing, so that
a digest does not depend on where the folder stands. The text of a LICENSE is not guessed at.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ...errors import FormatError
from ...io.readers import read_full
from ...model import ModelFile, ModelInfo
from ...oci.document import parse_json
from ...paths import show
from ...settings import Limits
from .. import facts
from ..gguf import GgufHeader
from .weights import MODEL_INDEX, WeightFacts, read_weights

CONFIG = "config.json"
MAX_TEXT = 256
"""Characters of one value."""
MAX_VALUES = 64
"""Values of one list."""

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_DTYPES = {
    "float64": "fp64",
    "float32": "fp32",
    "float": "fp32",
    "float16": "fp16",
    "half": "fp16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8",
    "int8": "int8",
}
_CONTEXT = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len")


class Description(NamedTuple):
    """Metadata found.

    Attributes:
        info: Metadata.
        origin: What `info` has no place for: `folder.layout` (`huggingface`, `gguf` or `plain`), and where known
            `folder.base_model`, `folder.context_length` (tokens), `folder.library`, `folder.license` (the name of a
            licence that SPDX does not have) and `folder.task`.
        warnings: What could not be understood, one sentence each.
    """

    info: ModelInfo
    origin: Mapping[str, str]
    warnings: tuple[str, ...]


def describe(files: Sequence[ModelFile], limits: Limits) -> Description:
    """Find out what `files` are; only metadata, and headers of weights, are read.

    Raises:
        SourceError: a file cannot be read.
    """
    return _Describer(files, limits).description()


class _Describer:
    def __init__(self, files: Sequence[ModelFile], limits: Limits) -> None:
        self._files = {file.path: file for file in files}
        self._limits = limits
        self._warnings: list[str] = []
        self._front = self._front_matter()
        self._config = self._load(CONFIG) if CONFIG in self._files else {}
        self._weights = read_weights(self._files, self._load, self._warnings.append)

    def description(self) -> Description:
        gguf = self._weights.gguf or GgufHeader(version=0)
        licenses, other = self._licenses(gguf)
        info = self._numbers(
            ModelInfo(
                name=self._name(gguf),
                description=_clean(gguf.text("general.description")),
                version=_clean(gguf.text("general.version")),
                vendor=_clean(gguf.text("general.organization")),
                family=_clean(self._config.get("model_type")) or _clean(gguf.architecture),
                authors=self._front_matter_texts("authors")
                or self._front_matter_texts("author")
                or _list(gguf.text("general.author")),
                licenses=licenses,
                doc_url=_clean(gguf.text("general.url")),
                source_url=_clean(gguf.text("general.repo_url")),
                architecture="transformer" if isinstance(self._config.get("transformers_version"), str) else None,
                format=self._weights.format,
            )
        )
        origin = {
            "folder.layout": self._layout(),
            "folder.base_model": ",".join(self._front_matter_texts("base_model")),
            "folder.context_length": self._context_length(gguf),
            "folder.library": ",".join(self._front_matter_texts("library_name")),
            "folder.license": other,
            "folder.task": ",".join(self._front_matter_texts("pipeline_tag")),
        }
        return Description(info, {key: text for key, text in origin.items() if text}, tuple(self._warnings))

    def _load(self, path: str) -> Mapping[str, object]:
        """The JSON object in a file; empty, with a warning, where it is none."""
        content = self._files[path].content
        size, limit = content.size, self._limits.metadata
        if size > limit:
            self._warnings.append(f"{show(path)} has {size} bytes, more than the {limit} that are looked at")
            return {}
        try:
            found = parse_json(self._start(path, size), show(path), limit)
        except FormatError as exc:
            self._warnings.append(f"{exc.message}; no metadata is read from it")
            return {}
        if isinstance(found, dict):
            return found
        self._warnings.append(f"{show(path)} is no JSON object; no metadata is read from it")
        return {}

    def _start(self, path: str, size: int) -> bytes:
        content = self._files[path].content
        buffer = bytearray(min(size, content.size))
        with content.open() as reader:
            return bytes(buffer[: read_full(reader, memoryview(buffer))])

    def _front_matter(self) -> Mapping[str, tuple[str, ...]]:
        readme = next((path for path in self._files if path.lower() == "readme.md"), None)
        if readme is None:
            return {}
        from .frontmatter import MAX_FRONT_MATTER, parse_front_matter

        try:
            return parse_front_matter(self._start(readme, MAX_FRONT_MATTER))
        except ValueError as exc:
            self._warnings.append(f"the front matter of {show(readme)} is not valid YAML ({exc}); it is not read")
            return {}

    def _front_matter_texts(self, key: str) -> tuple[str, ...]:
        """The texts of the front matter under `key`."""
        return _list(*self._front.get(key, ()))

    def _name(self, gguf: GgufHeader) -> str | None:
        texts = self._front_matter_texts("model_name") or self._front_matter_texts("model-index.name")
        if len(texts) == 1:
            return texts[0]
        # Often a path on the machine that trained the model, of which the last part alone is anybody's business.
        path = _clean(self._config.get("_name_or_path")) or ""
        last = path.replace("\\", "/").rstrip("/").rpartition("/")[2]
        return _clean(gguf.name) or (last if last not in (".", "..") else None) or None

    def _licenses(self, gguf: GgufHeader) -> tuple[tuple[str, ...], str | None]:
        """SPDX expressions, and the name of a licence that is none."""
        texts = self._front_matter_texts("license") or _list(gguf.license)
        known = [facts.spdx(text) for text in texts]
        if None not in known:
            return tuple(text for text in known if text), None
        return (), ",".join(self._front_matter_texts("license_name") or texts)

    def _layout(self) -> str:
        if CONFIG in self._files or MODEL_INDEX in self._files:
            return "huggingface"
        return "gguf" if self._weights.format == "gguf" else "plain"

    def _context_length(self, gguf: GgufHeader) -> str | None:
        inner = self._config.get("text_config")
        tables = (self._config, inner if isinstance(inner, dict) else {})
        numbers = [table.get(key) for table in tables for key in _CONTEXT]
        found = next((number for number in (*numbers, gguf.context_length) if _natural(number)), None)
        return None if found is None else str(found)

    def _numbers(self, info: ModelInfo) -> ModelInfo:
        """`info` with precision, quantisation and size."""
        weights: WeightFacts = self._weights
        quantised, method = self._quantization()
        precision = weights.precision
        if weights.format not in ("safetensors", "gguf") and not quantised:
            precision = self._dtype()
        parameters = weights.parameters
        if weights.packed and (quantised or precision is None):
            parameters = None  # an element holds several of them, how many depends on the method
        return replace(
            info,
            precision=precision,
            quantization=weights.quantization or method,
            param_size=facts.param_size(parameters) if parameters else None,
        )

    def _quantization(self) -> tuple[bool, str | None]:
        """Return whether `config.json` says that weights are quantised, and the word for how."""
        table = self._config.get("quantization_config")
        if isinstance(table, dict):
            return True, _clean(table.get("quant_method"))
        table = self._config.get("quantization")  # MLX
        if isinstance(table, dict):
            bits = table.get("bits")
            return True, f"{bits}bit" if _natural(bits) else None
        return False, None

    def _dtype(self) -> str | None:
        inner = self._config.get("text_config")
        tables = (self._config, inner if isinstance(inner, dict) else {})
        names = [table.get(key) for table in tables for key in ("dtype", "torch_dtype")]
        found = next((name for name in names if isinstance(name, str)), "")
        return _DTYPES.get(found.removeprefix("torch."))


def _natural(value: object) -> bool:
    return type(value) is int and 0 < value < 1 << 63


def _clean(value: object) -> str | None:
    """`value` if it is text fit for one line of metadata, without the space around it."""
    if not isinstance(value, str):
        return None
    text = value.strip()
    return text if text and len(text) <= MAX_TEXT and not _CONTROL.search(text) else None


def _list(*values: object) -> tuple[str, ...]:
    return tuple(text for value in values[:MAX_VALUES] if (text := _clean(value)))
