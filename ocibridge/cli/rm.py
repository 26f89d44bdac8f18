# SPDX-License-Identifier: Apache-2.0
"""`ocibridge rm`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ..operations.options import RmOptions
from . import options
from .output import printable
from .running import show

if TYPE_CHECKING:
    from ..operations.reports import RemovedReport, RmReport


def add(commands: options.Commands[Any]) -> None:
    """Declare the command."""
    parser = options.add_command(
        commands,
        "rm",
        "Delete a tag, or a manifest with all its tags.",
        (
            "ocibridge rm localhost:5000/models/digits:old",
            "ocibridge rm localhost:5000/models/digits:old --all-tags --companions --dry-run",
        ),
        see="tags.md",
    )
    parser.set_defaults(run=run)
    parser.add_argument("reference", metavar="REFERENCE", help=options.STORED.replace("[:TAG|@DIGEST]", ":TAG|@DIGEST"))
    options.add_flags(parser, RmOptions)


def run(args: argparse.Namespace) -> None:
    """Delete, and print what is gone."""
    chosen = options.options_of(args, RmOptions)
    registry = options.registry_of(args)
    from ..operations.rm import rm

    show(args, rm(args.reference, chosen, registry=registry), _lines)


def _lines(report: RmReport) -> list[str]:
    word = "would delete" if report.dry_run else "deleted"
    return [printable(f"{word} {_described(each)}") for each in report.removed]


def _described(each: RemovedReport) -> str:
    if each.tag is not None:
        return f"the tag {each.tag} of {each.reference}"
    tags = f", and its tags {', '.join(each.tags)}" if each.tags else ""
    return f"the manifest {each.reference}{tags}"
