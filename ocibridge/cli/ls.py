# SPDX-License-Identifier: Apache-2.0
"""`ocibridge ls`."""

from __future__ import annotations

import argparse
from typing import Any

from . import options
from .output import printable
from .running import show


def add(commands: options.Commands[Any]) -> None:
    """Declare the command."""
    parser = options.add_command(
        commands, "ls", "List the repositories of a registry.", ("ocibridge ls localhost:5000",), see="tags.md"
    )
    parser.set_defaults(run=run)
    parser.add_argument("host", metavar="HOST", help="HOST[:PORT]")
    options.add_flags(parser)


def run(args: argparse.Namespace) -> None:
    """Print the repositories, each as it is written in a reference, one a line."""
    registry = options.registry_of(args)
    from ..operations.naming import ls

    show(
        args,
        ls(args.host, registry=registry),
        lambda report: [printable(f"{report.source}/{name}") for name in report.repositories],
    )
