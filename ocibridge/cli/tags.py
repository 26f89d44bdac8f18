# SPDX-License-Identifier: Apache-2.0
"""`ocibridge tags`."""

from __future__ import annotations

import argparse
from typing import Any

from . import options
from .output import printable
from .running import show


def add(commands: options.Commands[Any]) -> None:
    """Declare the command."""
    parser = options.add_command(
        commands,
        "tags",
        "List the tags of a repository.",
        ("ocibridge tags localhost:5000/models/digits", "ocibridge tags oci:layout"),
        see="tags.md",
    )
    parser.set_defaults(run=run)
    parser.add_argument(
        "repository", metavar="REPOSITORY", help="HOST[:PORT]/REPOSITORY, oci:DIR or oci-archive:FILE, without a tag"
    )
    options.add_flags(parser)


def run(args: argparse.Namespace) -> None:
    """Print the tags, one a line."""
    registry = options.registry_of(args)
    from ..operations.naming import tags

    show(args, tags(args.repository, registry=registry), lambda report: map(printable, report.tags))
