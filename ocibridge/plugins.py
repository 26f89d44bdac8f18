# SPDX-License-Identifier: Apache-2.0
"""Plugins: classes that other packages name as entry points (Python Packaging Guide, "Entry points").

A plugin that cannot be used causes one warning (`PluginWarning`); everything else works without it.
"""

from __future__ import annotations

import sys
import warnings
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any


class PluginWarning(UserWarning):
    """A plugin is installed and cannot be used."""


@cache
def plugins(group: str, kind: str, taken: frozenset[str] = frozenset()) -> tuple[Any, ...]:
    """One object of each class that installed packages name in a group of entry points, by name.

    Args:
        group: Such as `ocibridge.formats`.
        kind: What each has to be, as `module:class`; it has a `name`, which is the name of its entry point.
        taken: Names that belong to this package.
    """
    if not _announced(group):
        return ()
    from importlib.metadata import entry_points  # takes longer than a small push, so only where there is a plugin

    module, _, name = kind.partition(":")
    base = getattr(import_module(module), name)
    found: dict[str, Any] = {}
    for entry in sorted(entry_points(group=group), key=lambda each: (each.name, each.value)):
        try:
            found[entry.name] = _checked(entry.name, entry.load()(), base, taken | found.keys())
        except Exception as exc:  # noqa: BLE001 - the code of others may fail in any way
            package = entry.dist.name if entry.dist else "a package that is installed"
            warnings.warn(
                f"the plugin {entry.name} ({group}, {entry.value}) of {package} cannot be used: "
                f"{type(exc).__name__}: {exc}; update or remove that package",
                PluginWarning,
                stacklevel=2,
            )
    return tuple(found.values())


def _checked(name: str, made: Any, base: type[Any], taken: frozenset[str]) -> Any:
    if not isinstance(made, base):
        raise TypeError(f"it is no {base.__name__}")
    if made.name != name:
        raise ValueError(f"it calls itself {made.name!r}")
    if name in taken:
        raise ValueError(f"there is already one named {name!r}")
    return made


def _announced(group: str) -> bool:
    """Return whether any installed package has entry points of this group: a look at the files alone."""
    section = f"[{group}]".encode()
    for folder in dict.fromkeys(sys.path):
        for file in Path(folder or ".").glob("*-info/entry_points.txt"):
            try:
                if section in file.read_bytes():
                    return True
            except OSError:
                continue
    return False
