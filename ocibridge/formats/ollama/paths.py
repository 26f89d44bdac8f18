# SPDX-License-Identifier: Apache-2.0
"""Path and role of each layer of an Ollama model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import quote

from ...errors import FormatError
from ...model import Role
from ...paths import check_collisions, check_path, show
from .manifest import OllamaBlob, ParsedManifest

MANIFEST_PATH = "ollama/manifest.json"
CONFIG_PATH = "ollama/config.json"

_SINGLE = {
    "draft": ("draft.gguf", Role.WEIGHT),
    "system": ("ollama/system", Role.WEIGHT_CONFIG),
    "params": ("ollama/params.json", Role.WEIGHT_CONFIG),
    "messages": ("ollama/messages.json", Role.WEIGHT_CONFIG),
    "tokenizer": ("tokenizer.json", Role.WEIGHT_CONFIG),
    "tokenizer.config": ("tokenizer_config.json", Role.WEIGHT_CONFIG),
}


@dataclass(frozen=True, slots=True)
class Placed:
    """One file.

    Attributes:
        path: Its path inside the model.
        role: Its role.
        parts: The rows of the manifest that it serves: several where a manifest repeats a row.
        known: Whether the type of the layer is one that Ollama has.
    """

    path: str
    role: Role
    parts: tuple[OllamaBlob, ...]
    known: bool = True


def place(manifest: ParsedManifest, owner: str, is_container: Callable[[OllamaBlob], bool]) -> list[Placed]:
    """Give each layer of a manifest a path; the config comes first.

    Args:
        manifest: The manifest.
        owner: Description of the source for messages.
        is_container: Whether a tensor layer is a safetensors file, and not the bare tensor of seed 004.

    Raises:
        FormatError: a name is unsafe, or two different blobs would have the same name.
    """
    numbers = _Numbers(part.kind for part in manifest.layers)
    found: dict[str, Placed] = {}
    for part in manifest.parts:
        placed = _place(part, numbers, owner, is_container)
        other = found.get(placed.path)
        if other and other.parts[0].sha256 != part.sha256:
            raise FormatError(
                f"{owner} has two different layers for {show(placed.path)}, and no rule says which one counts",
                hint="create the model again with one of them",
            )
        found[placed.path] = Placed(placed.path, placed.role, (*other.parts, part), other.known) if other else placed
    check_collisions([MANIFEST_PATH, *found], owner)
    return list(found.values())


class _Numbers:
    """Counts the layers of each kind."""

    def __init__(self, kinds: Iterable[str]) -> None:
        self._totals: dict[str, int] = {}
        self._seen: dict[str, int] = {}
        for kind in kinds:
            self._totals[kind] = self._totals.get(kind, 0) + 1

    def next(self, kind: str) -> tuple[int, int]:
        """The number of the next layer of this kind, from 1, and how many there are."""
        self._seen[kind] = self._seen.get(kind, 0) + 1
        return self._seen[kind], self._totals[kind]


def _place(part: OllamaBlob, numbers: _Numbers, owner: str, is_container: Callable[[OllamaBlob], bool]) -> Placed:
    if part.kind == "config":
        return Placed(CONFIG_PATH, Role.WEIGHT_CONFIG, (part,))
    number, total = numbers.next(part.kind)
    if part.kind == "model":
        path = "model.gguf" if total == 1 else f"model-{number:05}-of-{total:05}.gguf"
        return Placed(path, Role.WEIGHT, (part,))
    if part.kind in ("adapter", "projector"):
        stem = "mmproj" if part.kind == "projector" else part.kind
        return Placed(f"{stem}-{number}.gguf", Role.WEIGHT, (part,))
    if part.kind == "license":
        return Placed("LICENSE" if number == 1 else f"LICENSE.{number - 1}", Role.DOC, (part,))
    if part.kind in ("template", "prompt"):
        suffix = f".{escape(part.name)}" if part.name else ""
        return Placed(f"ollama/template{suffix}", Role.WEIGHT_CONFIG, (part,))
    if part.kind == "tensor" and part.name:
        suffix = "safetensors" if is_container(part) else "bin"
        return Placed(f"tensors/{escape(part.name)}.{suffix}", Role.WEIGHT, (part,))
    if part.kind == "json" and part.name:
        return Placed(check_path(part.name, owner), Role.WEIGHT_CONFIG, (part,))
    if part.kind in _SINGLE:
        path, role = _SINGLE[part.kind]
        return Placed(path, role, (part,))
    role = Role.WEIGHT if part.kind == "tensor" else Role.WEIGHT_CONFIG
    return Placed(f"ollama/unknown-{part.index}", role, (part,), known=False)


def escape(name: str) -> str:
    """`name` as one harmless part of a path; different names stay different.

    Percent-encoded but for ASCII letters, digits, `_`, `-`, `~` and dots that do not come first.
    """
    escaped = quote(name, safe="")
    return "%2E" + escaped[1:] if escaped.startswith(".") else escaped
