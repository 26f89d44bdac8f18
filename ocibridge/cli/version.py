# SPDX-License-Identifier: Apache-2.0
"""`ocibridge version`."""

from __future__ import annotations

import argparse
from typing import Any

from ..about import __version__
from . import options
from .output import result


def add(commands: options.Commands[Any]) -> None:
    """Declare the command."""
    parser = options.add_command(commands, "version", "Print the version.", "ocibridge version")
    parser.set_defaults(run=run)
    options.add_flags(parser, json=False, registry=False)


def run(_args: argparse.Namespace) -> None:
    """Print it."""
    result(f"ocibridge {__version__}")
