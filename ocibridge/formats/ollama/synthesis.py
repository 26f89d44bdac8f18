# SPDX-License-Identifier: Apache-2.0
"""An Ollama manifest for a model that never had one: GGUF files, and what goes with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields

from ...errors import FormatError
from ...io.content import Content, read_all
from ...model import ModelInfo, StoredModel
from ...oci import MEDIA_TYPE_DOCKER_MANIFEST, parse_json
from ...paths import show
from ...settings import MiB
from ..gguf import GgufHeader, read_gguf
from .manifest import MEDIA_TYPE_CONFIG, OllamaLayer, OllamaManifest, go_json
from .mediatype import PREFIX

_SHARD = re.compile(r"(?P<stem>.*)-(?P<number>[0-9]{5})-of-(?P<total>[0-9]{5})\.gguf", re.IGNORECASE)
_LICENSE = re.compile(r"(?:.*/)?(?:licen[cs]e|copying)(?:\.(?:txt|md|[0-9]+))?", re.IGNORECASE)
# The names that Hugging Face repositories use for `ollama run hf.co/...`, and ours.
_SETTINGS = {
    "template": "template",
    "ollama/template": "template",
    "system": "system",
    "ollama/system": "system",
    "params": "params",
    "ollama/params.json": "params",
    "ollama/messages.json": "messages",
}
_ORDER = ("model", "projector", "adapter", "template", "system", "license", "params", "messages")
_JSON = {"params": dict, "messages": list}
_MAX_SETTING = MiB
_SHOWN = 5
# The name is the user's to give; the others are fields of the config.
_HAVE_WORDS = frozenset(("name", "family", "param_size", "quantization"))


@dataclass(frozen=True, slots=True)
class Arrived:
    """A file that is here: hex sha256, and its bytes."""

    sha256: str
    content: Content

    def layer(self, media_type: str) -> OllamaLayer:
        """The row of the manifest for it."""
        return OllamaLayer(media_type=media_type, digest=f"sha256:{self.sha256}", size=self.content.size)


def has_weights(paths: Iterable[str]) -> bool:
    """Return whether a model with these files can be one of Ollama's."""
    return any(_is_gguf(path) for path in paths)


def no_weights(owner: str) -> FormatError:
    """The error for a model for which `has_weights` is false."""
    return FormatError(
        f"the model cannot become {owner}: it has no GGUF file",
        hint="write it into a folder (name one as the target), and let 'ollama create' convert it there",
    )


def losses(stored: StoredModel) -> Iterator[str]:
    """Facts that a manifest by `synthesise` cannot express, one sentence each.

    Args:
        stored: The model, as far as is known.
    """
    left = [
        file.path for file in stored.files if not _is_gguf(file.path) and not _setting_kind(file.path, file.size or 0)
    ]
    if left:
        names = ", ".join(map(show, left[:_SHOWN])) + (", ..." if len(left) > _SHOWN else "")
        count = "1 file" if len(left) == 1 else f"{len(left)} files"
        yield f"an Ollama model has no layer for {count} of the model, left out: {names}"
    facts = [f"{word} {show(text)}" for word, text in _facts(stored.info)]
    if facts:
        yield (
            "an Ollama model has no word for these facts, only what the GGUF header says of them is kept: "
            + ", ".join(facts)
        )
    if stored.identity:
        yield f"the identity of the source ({show(stored.identity)[1:-1]}) is not kept: the Ollama model has its own"


def _facts(info: ModelInfo) -> Iterator[tuple[str, str]]:
    for each in fields(info):
        value = getattr(info, each.name)
        if value and each.name not in _HAVE_WORDS and (each.name, value) != ("format", "gguf"):
            yield each.name.replace("_", " "), ", ".join(value) if isinstance(value, tuple) else str(value)


def synthesise(files: Mapping[str, Arrived], info: ModelInfo, owner: str, keep: Callable[[bytes], Arrived]) -> bytes:
    """Write the manifest of a model that has none.

    Args:
        files: Everything that has arrived, by path.
        info: What the artifact says about the model.
        owner: Description of the source for messages.
        keep: Stores the config as a blob.

    Returns:
        The manifest as `ollama create` would write it: a config, the GGUF files, and templates, system prompts,
        parameters and licences whose names say what they are.

    Raises:
        FormatError: there is no GGUF file, or several that are not the parts of one model.
    """
    headers = {path: read_gguf(files[path].content, path) for path in sorted(files) if _is_gguf(path)}
    if not headers:
        raise no_weights(owner)
    kinds = {path: _kind(path, header) for path, header in headers.items()}
    models = _models([path for path, kind in kinds.items() if kind == "model"], owner)
    kinds |= {path: kind for path in files if (kind := _setting(path, files[path]))}
    rows = sorted(kinds, key=lambda path: (_ORDER.index(kinds[path]), path.encode()))
    _refuse_doubles(rows, kinds, files, owner)
    config = go_json(_config([headers[path] for path in models], headers.values(), info), owner)
    document = OllamaManifest(
        schema_version=2,
        media_type=MEDIA_TYPE_DOCKER_MANIFEST,
        config=keep(config).layer(MEDIA_TYPE_CONFIG),
        layers=[files[path].layer(PREFIX + kinds[path]) for path in rows],
    )
    return document.to_json() + b"\n"


def _is_gguf(path: str) -> bool:
    return path.lower().endswith(".gguf")


def _kind(path: str, header: GgufHeader) -> str:
    if header.kind in ("mmproj", "projector") or path.rpartition("/")[2].lower().startswith("mmproj"):
        return "projector"
    return "adapter" if header.kind == "adapter" else "model"


def _models(paths: list[str], owner: str) -> list[str]:
    """The main weights: one file, or all parts of one split file."""
    if not paths:
        raise FormatError(
            f"{owner} has only adapters and projectors, no weights to run",
            hint="publish the base model with them",
        )
    shards = [match for path in paths if (match := _SHARD.fullmatch(path))]
    whole = len(shards) == len(paths) and len({(match["stem"], match["total"]) for match in shards}) == 1
    if whole and [int(match["number"]) for match in shards] == list(range(1, int(shards[0]["total"]) + 1)):
        return paths
    if len(paths) == 1 and not shards:
        return paths
    names = ", ".join(show(path) for path in paths[:5])
    if whole:
        raise FormatError(f"{owner} lacks parts of its split weights; it has {names}", hint="publish all of them")
    raise FormatError(
        f"{owner} has {len(paths)} models in it ({names}), an Ollama model has one",
        hint="publish each under a tag of its own, or pull it as a folder",
    )


def _setting(path: str, file: Arrived) -> str | None:
    """The kind of a small file whose name says what it is."""
    kind = _setting_kind(path, file.content.size)
    wanted = _JSON.get(kind or "")
    if wanted and not isinstance(parse_json(read_all(file.content), show(path), _MAX_SETTING), wanted):
        raise FormatError(f"{show(path)} is no JSON {'object' if wanted is dict else 'array'}")
    return kind


def _setting_kind(path: str, size: int) -> str | None:
    kind = "license" if _LICENSE.fullmatch(path) else _SETTINGS.get(path)
    return None if size > _MAX_SETTING else kind


def _refuse_doubles(rows: list[str], kinds: Mapping[str, str], files: Mapping[str, Arrived], owner: str) -> None:
    for kind in ("template", "system", "params"):
        found = [path for path in rows if kinds[path] == kind]
        if len({files[path].sha256 for path in found}) > 1:
            raise FormatError(
                f"{owner} has both {show(found[0])} and {show(found[1])}, an Ollama model has one of them"
            )


def _config(models: list[GgufHeader], every: Iterable[GgufHeader], info: ModelInfo) -> dict[str, object]:
    """The config object, with those fields that Ollama never leaves out."""
    first = models[0]
    parameters = sum(header.parameters or 0 for header in models)
    families = [first.architecture or info.family, *(header.architecture for header in every)]
    known = list(dict.fromkeys(family for family in families if family))
    return {
        "model_format": "gguf",
        "model_family": known[0] if known else "",
        "model_families": known or None,
        "model_type": human_number(parameters) if parameters else info.param_size or "",
        "file_type": first.file_type or info.quantization or "",
        "architecture": "amd64",
        "os": "linux",
    }


def human_number(count: int) -> str:
    """`count` as Ollama writes a number of parameters: `112K`, `136.73M`, `8.0B`."""
    for power, letter, digits in ((3, "B", 1), (2, "M", 2), (1, "K", 0)):
        unit = 1000**power
        if count >= unit:
            return f"{count / unit:.{digits if count % unit else 0}f}{letter}"
    return str(count)
