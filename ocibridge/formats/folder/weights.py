# SPDX-License-Identifier: Apache-2.0
"""Metadata from the headers of weights; a folder may contain the same weights more than once.

Weights in the root count, else those of the only folder that has some, else (in a pipeline of components, which a
`model_index.json` in the root declares) those of all. Of the formats there, only the first of `FORMATS` counts. Shards
belong together by their index file or by their names, and what is left are alternatives: the well-known name wins, else
only values that all alternatives share are used. No tensor is read, nothing is unpickled.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from ...errors import FormatError
from ...model import ModelFile, Role
from ...paths import show
from .. import facts
from ..gguf import UNKNOWN, GgufHeader, read_gguf
from ..safetensors import read_safetensors

T = TypeVar("T")

FORMATS: Mapping[str, tuple[str, ...]] = {
    "safetensors": (".safetensors",),
    "gguf": (".gguf",),
    "pytorch": (".pt", ".pth", ".ckpt", ".pt2", ".bin"),
    "onnx": (".onnx",),
    "tensorflow": (".pb",),
    "keras": (".keras", ".h5"),
    "tflite": (".tflite",),
    "flax": (".msgpack",),
    "tensorrt": (".engine", ".plan", ".trt"),
    "coreml": (".mlmodel",),
    "sklearn": (".joblib",),
}
"""Formats by the suffixes of their files, the most telling first. A `.bin` is PyTorch's by its usual names only."""

PACKED = frozenset(("U8", "U16", "I16", "U32", "I32", "U64", "I64"))
"""Dtypes that hold several weights in one element where weights are quantised."""

INDEX_SUFFIX = ".safetensors.index.json"
MODEL_INDEX = "model_index.json"

_PREFERRED = ("model", "diffusion_pytorch_model", "consolidated", "adapter_model")
_SHARD = re.compile(r"(.+)-([0-9]{5})-of-([0-9]{5})\.(?:safetensors|gguf)")
_TORCH_BIN = re.compile(r"(?:pytorch_|adapter_)?model[^/]*\.bin")


class WeightFacts(NamedTuple):
    """Metadata of weights; unknown or contradictory values are None or empty.

    Attributes:
        format: A key of `FORMATS`.
        parameters: Elements of all tensors.
        precision: Word of the config schema.
        quantization: File type of GGUF.
        packed: Whether some elements may hold several weights each, if weights are quantised.
        gguf: The header (of the first shard) of GGUF weights; of alternatives, the metadata that they share.
    """

    format: str | None = None
    parameters: int | None = None
    precision: str | None = None
    quantization: str | None = None
    packed: bool = False
    gguf: GgufHeader | None = None


@dataclass(slots=True)
class _WeightSet:
    """Files that are one set of weights, as far as they are there."""

    stem: str
    files: list[ModelFile] = field(default_factory=list)
    whole: bool = True


LoadJson = Callable[[str], Mapping[str, object]]
"""Given the path of a JSON file, its object; empty where it is none."""


def read_weights(files: Mapping[str, ModelFile], load: LoadJson, warn: Callable[[str], None]) -> WeightFacts:
    """Read the headers of the weights among `files`.

    Args:
        files: The files of the model by path.
        load: See `LoadJson`.
        warn: Called with a sentence about each problem.

    Raises:
        SourceError: a file cannot be read.
    """
    weights = _main([file for file in files.values() if file.role is Role.WEIGHT], pipeline=MODEL_INDEX in files)
    kind = next((name for name in FORMATS if any(_is(file, name) for file in weights)), None)
    if kind not in ("safetensors", "gguf"):
        return WeightFacts(kind)
    weights = [file for file in weights if _is(file, kind)]
    folders = sorted({_folder(file.path) for file in weights})
    choices = [_choose(list(_groups(folder, weights, files, load, warn))) for folder in folders]
    if len(choices) > 1:
        if MODEL_INDEX not in files or any(len(each) > 1 for each in choices):
            return WeightFacts(kind)
        parts = [group for each in choices for group in each]
        choices = [[_WeightSet("", [file for part in parts for file in part.files], all(part.whole for part in parts))]]
    read = _of_safetensors if kind == "safetensors" else _of_gguf
    return _agreed(kind, [read(group, warn) for group in choices[0]])


def _main(weights: list[ModelFile], pipeline: bool) -> list[ModelFile]:
    return [file for file in weights if not _folder(file.path) and not pipeline] or weights


def _is(file: ModelFile, kind: str) -> bool:
    name = file.path.rpartition("/")[2].lower()
    if name.endswith(".bin"):
        return kind == "pytorch" and _TORCH_BIN.fullmatch(name) is not None
    return name.endswith(FORMATS[kind])


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _groups(
    folder: str,
    weights: Sequence[ModelFile],
    files: Mapping[str, ModelFile],
    load: LoadJson,
    warn: Callable[[str], None],
) -> Iterator[_WeightSet]:
    """The sets of weights in one folder."""
    left = {file.path: file for file in weights if _folder(file.path) == folder}
    for path in [path for path in files if path.endswith(INDEX_SUFFIX) and _folder(path) == folder]:
        table = load(path).get("weight_map")
        names = {name for name in table.values() if isinstance(name, str)} if isinstance(table, dict) else set()
        shards = sorted(f"{folder}/{name}" if folder else name for name in names)
        missing = [each for each in shards if each not in files]
        if missing:
            warn(f"{show(path)} names {show(missing[0])}, which is not in the folder")
        found = [left.pop(each) for each in shards if each in left]
        if found:
            yield _WeightSet(path.rpartition("/")[2].removesuffix(INDEX_SUFFIX), found, len(found) == len(shards))
    sharded: dict[tuple[str, str], _WeightSet] = {}
    for path, file in left.items():
        name = path.rpartition("/")[2]
        match = _SHARD.fullmatch(name)
        if match:
            sharded.setdefault((match[1], match[3]), _WeightSet(match[1])).files.append(file)
        else:
            yield _WeightSet(name.rpartition(".")[0], [file])
    for (stem, count), group in sharded.items():
        if len(group.files) != int(count):
            group.whole = False
            warn(f"{show(stem)} has {int(count)} shards by their names, and {len(group.files)} of them are here")
        yield group


def _choose(groups: list[_WeightSet]) -> list[_WeightSet]:
    """The group with a well-known name, else all."""
    for stem in _PREFERRED:
        found = [group for group in groups if group.stem == stem]
        if len(found) == 1:
            return found
    return groups


def _agreed(kind: str, found: Sequence[WeightFacts]) -> WeightFacts:
    """Values shared by all alternatives; those that are no model of their own count only if there is nothing else."""
    found = [each for each in found if not each.gguf or _is_model(each.gguf)] or found
    return WeightFacts(
        format=kind,
        parameters=_same(each.parameters for each in found),
        precision=_same(each.precision for each in found),
        quantization=_same(each.quantization for each in found),
        packed=any(each.packed for each in found),
        gguf=_shared([each.gguf for each in found if each.gguf]),
    )


def _shared(headers: Sequence[GgufHeader]) -> GgufHeader | None:
    if not headers:
        return None
    first, *others = headers
    pairs = first.metadata.items()
    return replace(
        first, metadata={key: value for key, value in pairs if all(o.metadata.get(key) == value for o in others)}
    )


def _same(values: Iterable[T]) -> T | None:
    found = set(values)
    return found.pop() if len(found) == 1 else None


def _is_model(header: GgufHeader) -> bool:
    """Return whether a GGUF file is a model, not an adapter or the projector of one."""
    return header.kind in (None, "model") and header.architecture != "clip"


def _of_safetensors(group: _WeightSet, warn: Callable[[str], None]) -> WeightFacts:
    elements: Counter[str] = Counter()
    whole = group.whole
    for file in group.files:
        try:
            elements.update(read_safetensors(file.content, show(file.path)).elements)
        except FormatError as exc:
            warn(f"{exc.message}; no metadata is read from it")
            whole = False
    known = WeightFacts(precision=facts.precision(elements), packed=not PACKED.isdisjoint(elements))
    return known._replace(parameters=sum(elements.values()) or None) if whole else known


def _of_gguf(group: _WeightSet, warn: Callable[[str], None]) -> WeightFacts:
    headers = []
    for file in sorted(group.files, key=lambda file: file.path):
        try:
            headers.append(read_gguf(file.content, show(file.path)))
        except FormatError as exc:
            warn(f"{exc.message}; no metadata is read from it")
    headers = [header for header in headers if header.known]
    if not headers:
        return WeightFacts()
    first = headers[0]
    elements: Counter[str] = Counter()
    for header in headers:
        elements.update(header.elements)
    whole = group.whole and len(headers) == len(group.files)
    named = {name: count for name, count in elements.items() if name != UNKNOWN}
    precision, quantization = facts.split_file_type(first.file_type or facts.dominant(named))
    return WeightFacts(
        parameters=(sum(elements.values()) or None) if whole else None,
        precision=precision,
        quantization=quantization,
        gguf=first,
    )
