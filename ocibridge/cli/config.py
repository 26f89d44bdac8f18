# SPDX-License-Identifier: Apache-2.0
"""`ocibridge config`: the configuration files, checked, and every value with its place."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from .. import settings
from . import options
from .output import columns, results

if TYPE_CHECKING:
    from .configfile import ConfigFile


def add(commands: options.Commands[Any]) -> None:
    """Declare the command."""
    parser = options.add_command(
        commands,
        "config",
        "Check the configuration files, and show every value and its place.",
        ("ocibridge config", "OCIBRIDGE_CONFIG=other.toml ocibridge config"),
        see="command-line.md",
    )
    parser.set_defaults(run=run)
    options.add_flags(parser, json=False, registry=False)


def run(_args: argparse.Namespace) -> None:
    """Check, and print."""
    from .configfile import ConfigFile, check, check_tables
    from .main import COMMANDS, build_parser

    files = [ConfigFile.read(*each) for each in settings.config_paths()]
    check_tables(files, [*COMMANDS, "logout"])
    check(files, build_parser())
    rows = [row for file in files for row in _rows(file, file.tables, ())]
    results(
        columns(rows, indent="") if rows else [f"there is no configuration file; yours is {settings.config_file()}"]
    )


def _rows(file: ConfigFile, table: Mapping[str, Any], names: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    from .configfile import Setting

    for key, value in table.items():
        if isinstance(value, dict):
            yield from _rows(file, value, (*names, key))
        else:
            words = [f'"{name}"' if "." in name or ":" in name else name for name in (*names, key)]
            yield ".".join(words), json.dumps(value, default=str), Setting(names, key, value, file).place
