# SPDX-License-Identifier: Apache-2.0
"""The front matter of a README, as the Hugging Face Hub has it: the small part of YAML that model cards need.

Read are top-level keys with a scalar on one line (plain, or quoted without escapes), an inline list of such scalars,
or a block list of them. Of a block list of mappings, the first key of each is read, under `list.key`: a model card has
`model-index.name` there. Everything else of YAML (nested mappings, block and multi-line scalars, anchors, tags,
escapes) is ignored, key by key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...settings import KiB

MAX_FRONT_MATTER = 64 * KiB
"""Bytes at the start of a README that are looked at."""

_KEY = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]*):(?:[ \t]+(.*))?")
_ITEM = re.compile(r"[ ]*-(?:[ \t]+(.*))?")
_LINE = re.compile(r"\r\n|\r|\n")
_COMMENT = re.compile(r"(?:^|[ \t])#.*")
_QUOTED = re.compile(r"""(?:'((?:[^']|'')*)'|"([^"\\]*)")[ \t]*(?:#.*)?""")
_FLOW = re.compile(r"""\[((?:[^\[\]{}'"]|'[^']*'|"[^"\\]*")*)\][ \t]*(?:#.*)?""")
_FLOW_PIECE = re.compile(r"""'[^']*'|"[^"\\]*"|,|[^,'"]+""")
_INDICATORS = frozenset("|>&*!%@`{}[],?\"'")
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))


def parse_front_matter(data: bytes) -> dict[str, tuple[str, ...]]:
    """The values by key in the front matter at the start of `data`; empty where there is none.

    Never raises: what cannot be understood is not there. Scalars are text, whatever type YAML would give them; nulls
    are left out. Of a key that appears twice, the last counts.
    """
    text = data[:MAX_FRONT_MATTER].decode("utf-8-sig", errors="replace")
    lines = [line.rstrip(" \t") for line in _LINE.split(text)]
    end = next((at for at, line in enumerate(lines) if at and line in ("---", "...")), None)
    if lines[0] != "---" or end is None:
        return {}
    blocks: list[tuple[str, str, list[str]]] = []
    for line in lines[1:end]:
        match = _KEY.fullmatch(line)
        if match:
            blocks.append((match[1], match[2] or "", []))
        elif line and not line.lstrip().startswith("#") and blocks:
            blocks[-1][2].append(line)
    found: dict[str, tuple[str, ...]] = {}
    for key, value, rest in blocks:
        found.pop(key, None)
        found |= {name: values for name, values in _read(key, value, rest).items() if values}
    return found


def _read(key: str, value: str, rest: list[str]) -> Mapping[str, tuple[str, ...]]:
    """What one key with its value, and the lines below it, say."""
    value = "" if value.startswith("#") else value.strip(" \t")
    if value and rest:
        return {}  # a scalar or an inline list that goes on
    if value.startswith("["):
        return {key: _flow(value)}
    if value:
        return {key: _scalar(value)}
    return _block(key, rest)


def _block(key: str, rest: list[str]) -> dict[str, tuple[str, ...]]:
    first = _ITEM.fullmatch(rest[0]) if rest else None
    if not first:
        return {}
    indent = len(rest[0]) - len(rest[0].lstrip())
    found: dict[str, tuple[str, ...]] = {}
    for line in rest:
        item = _ITEM.fullmatch(line)
        if item and len(line) - len(line.lstrip()) == indent:
            text = (item[1] or "").strip(" \t")
            inner = _KEY.fullmatch(text)
            name = f"{key}.{inner[1]}" if inner else key
            found[name] = found.get(name, ()) + _scalar((inner[2] or "").strip(" \t") if inner else text)
        elif key in found:
            return {}  # a scalar that goes on
    return found


def _scalar(text: str) -> tuple[str, ...]:
    """The scalar `text` stands for, as a tuple that is empty where it is null or not understood."""
    if text.startswith(("'", '"')):
        match = _QUOTED.fullmatch(text)
        if not match:
            return ()
        return (match[1].replace("''", "'") if match[1] is not None else match[2],)
    text = _COMMENT.sub("", text).rstrip(" \t")
    if (
        text in _NULLS
        or text[0] in _INDICATORS
        or text == "-"
        or text.startswith("- ")
        or ": " in text
        or text.endswith(":")
    ):
        return ()
    return (text,)


def _flow(text: str) -> tuple[str, ...]:
    match = _FLOW.fullmatch(text)
    if not match:
        return ()
    items = [""]
    for piece in _FLOW_PIECE.findall(match[1]):
        if piece == ",":
            items.append("")
        else:
            items[-1] += piece
    return tuple(value for item in items for value in _scalar(item.strip(" \t")))
