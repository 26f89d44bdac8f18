# SPDX-License-Identifier: Apache-2.0
"""YAML documents with comments, for Kubernetes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from textwrap import wrap
from typing import Any

import yaml

Comments = Mapping[tuple[str | int, ...], str]
"""A comment for the key or item at a path, to be written above it."""

_WIDTH = 100


class _Dumper(yaml.SafeDumper):
    """Writes no aliases, and quotes `y` and `n`, which Go's YAML 1.1 reads as booleans."""

    def ignore_aliases(self, data: Any) -> bool:
        """Repeat values that occur twice."""
        return True


_Dumper.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("[yYnN]$"), list("yYnN"))


def to_yaml(document: Mapping[str, Any], comments: Comments) -> str:
    """Format a document of mappings, lists, strings, numbers and booleans, with comments above its keys and items."""
    text = yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=10**6)
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    lines = text.splitlines(keepends=True)
    # From the end on, so that the numbers of the lines before stay the same.
    for mark, comment in sorted(((_mark(root, path), each) for path, each in comments.items()), reverse=True):
        line, column = mark
        lines[line:line] = [f"{' ' * column}# {part}\n" for part in wrap(comment, _WIDTH)]
    return "".join(lines)


def _mark(node: Any, path: tuple[str | int, ...]) -> tuple[int, int]:
    """The line and column, from 0, of the key or item at a path."""
    for step in path:
        if isinstance(step, int):
            node = node.value[step]
            line, column = node.start_mark.line, node.start_mark.column - len("- ")
        else:
            key, node = next(pair for pair in node.value if pair[0].value == step)
            line, column = key.start_mark.line, key.start_mark.column
    return line, column
