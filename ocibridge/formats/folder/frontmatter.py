# SPDX-License-Identifier: Apache-2.0
"""The front matter of a README, as the Hugging Face Hub has it: YAML between two lines of dashes.

Read are the scalars of the top level, those in its lists, and, of mappings in its lists, their scalars under
`list.key`: a model card has `model-index.name` there. PyYAML parses, in Python and not in C, so that every machine
reads the same; no object is made of what it finds, so nothing is executed, no alias unfolds, and a date stays text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml

from ...settings import KiB

MAX_FRONT_MATTER = 64 * KiB
"""Bytes at the start of a README that are looked at."""

_FENCED = re.compile(r"---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*$", re.DOTALL | re.MULTILINE)
_NULL = "tag:yaml.org,2002:null"


def parse_front_matter(data: bytes) -> dict[str, tuple[str, ...]]:
    """The values by key in the front matter at the start of `data`; empty where there is none.

    Scalars are text, whatever type YAML would give them; nulls are left out. Of a key that appears twice, the last
    counts.

    Raises:
        ValueError: it is not valid YAML; the message is a clause such as "line 3: mapping values are not allowed here".
    """
    text = data[:MAX_FRONT_MATTER].decode("utf-8-sig", errors="replace").replace("\r\n", "\n").replace("\r", "\n")
    match = _FENCED.match(text)
    if not match:
        return {}
    try:
        root = yaml.compose(match[1], Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as exc:
        line = f"line {exc.problem_mark.line + 2}: " if exc.problem_mark else ""
        raise ValueError(f"{line}{exc.problem or exc.context}") from None
    except (yaml.YAMLError, ValueError, OverflowError):
        raise ValueError("it has characters that YAML does not allow") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    found: dict[str, tuple[str, ...]] = {}
    for key, value in _members(root):
        found.pop(key, None)
        for name, scalar in _scalars(key, value):
            found[name] = (*found.get(name, ()), scalar)
    return found


def _members(node: yaml.Node | None) -> Iterator[tuple[str, yaml.Node]]:
    """The members of a mapping whose keys are scalars; of anything else, none."""
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        if isinstance(key, yaml.ScalarNode):
            yield key.value, value


def _scalars(key: str, node: yaml.Node) -> Iterator[tuple[str, str]]:
    """The scalars that are read of the value `node` of `key`, each with its name."""
    items = node.value if isinstance(node, yaml.SequenceNode) else [node]
    for item in items:
        members = _members(item) if item is not node else ()
        for name, value in [(key, item), *((f"{key}.{inner}", value) for inner, value in members)]:
            if isinstance(value, yaml.ScalarNode) and value.tag != _NULL and value.value:
                yield name, value.value
