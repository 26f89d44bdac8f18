# SPDX-License-Identifier: Apache-2.0
"""What other packages add: classes that they name as entry points (Python Packaging Guide, "Entry points").

A plugin that cannot be used is said in one sentence (`PluginWarning`), and everything else works without it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Hashable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

T = TypeVar("T")


class PluginWarning(UserWarning):
    """A plugin is installed and cannot be used."""


def plugins(group: str, kind: type[T], taken: frozenset[str] = frozenset()) -> tuple[T, ...]:
    """One object of each class that installed packages name in a group of entry points, by name.

    Args:
        group: Such as `ocibridge.formats`.
        kind: What each has to be; it has a `name`, which is the name of its entry point.
        taken: Names that belong to this package.
    """
    return cast("tuple[T, ...]", _loaded(group, cast(Hashable, kind), taken))


@cache
def _loaded(group: str, kind: Any, taken: frozenset[str]) -> tuple[Any, ...]:
    if not _announced(group):
        return ()
    from importlib.metadata import entry_points  # takes longer than a small push, so only where there is a plugin

    found = {}
    for entry in sorted(entry_points(group=group), key=lambda each: (each.name, each.value)):
        try:
            made = entry.load()()
            if not isinstance(made, kind):
                raise TypeError(f"it is no {kind.__name__}")
            if made.name != entry.name or made.name in taken or made.name in found:
                raise ValueError(f"its name {made.name!r} is taken, or not that of its entry point")
            found[made.name] = made
        except Exception as exc:  # noqa: BLE001 - the code of others may fail in any way
            package = entry.dist.name if entry.dist else "a package that is installed"
            warnings.warn(
                f"the plugin {entry.name} ({group}, {entry.value}) of {package} cannot be used: "
                f"{type(exc).__name__}: {exc}; update or remove that package",
                PluginWarning,
                stacklevel=3,
            )
    return tuple(found.values())


def _announced(group: str) -> bool:
    """Whether any installed package has entry points of this group: a look at the files alone."""
    section = f"[{group}]".encode()
    for folder in dict.fromkeys(sys.path):
        for file in Path(folder or ".").glob("*-info/entry_points.txt"):
            try:
                if section in file.read_bytes():
                    return True
            except OSError:
                continue
    return False
