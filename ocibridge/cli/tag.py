# SPDX-License-Identifier: Apache-2.0
"""`ocibridge tag`."""

from __future__ import annotations

import argparse
from typing import Any

from . import options
from .output import columns
from .running import show


def add(commands: options.Commands[Any]) -> None:
    """Declare the command."""
    parser = options.add_command(
        commands,
        "tag",
        "Give what is in a store more tags; no byte of it moves.",
        (
            "ocibridge tag localhost:5000/models/digits:v1 stable",
            "ocibridge tag localhost:5000/models/digits:v1 v1.0 latest",
        ),
        see="tags.md",
    )
    parser.set_defaults(run=run)
    parser.add_argument("reference", metavar="REFERENCE", help=options.STORED)
    parser.add_argument("names", metavar="NEW", nargs="+", help="new tag; one that is there is moved")
    options.add_flags(parser)


def run(args: argparse.Namespace) -> None:
    """Tag, and print what each new tag leads to."""
    registry = options.registry_of(args)
    from ..operations.naming import tag

    show(
        args,
        tag(args.reference, *args.names, registry=registry),
        lambda report: columns([[name, report.source] for name in report.tags], ""),
    )
