# SPDX-License-Identifier: Apache-2.0
"""`ocibridge convert`."""

from __future__ import annotations

import argparse
import time
from typing import Any

from . import options
from .output import human_time, result, say, warn
from .push import movements


def add(commands: options.Commands[Any]) -> None:
    """Declare the command."""
    parser = options.add_command(
        commands,
        "convert",
        "Publish an artifact again in another dialect, moving no layer that is there already.",
        "ocibridge convert localhost:5000/models/digits:v1 localhost:5000/models/digits:cncf --dialect modelpack",
        "run the same command again; layers that arrived whole are not sent again",
    )
    parser.set_defaults(run=run)
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="HOST[:PORT]/REPOSITORY[:TAG|@DIGEST], oci:DIR[:TAG] or oci-archive:FILE[:TAG]",
    )
    parser.add_argument("target", metavar="TARGET", help="the same, with a tag; may be the same repository")
    options.add_dialect(parser)
    options.add_json(parser)
    options.add_transfer(parser)
    options.add_registry(parser)


def run(args: argparse.Namespace) -> None:
    """Convert, and print the pinned reference of what was written."""
    registry = options.registry_options(args)
    from ..verbs.convert import convert
    from .progress import shown

    started = time.monotonic()
    with shown(args) as progress:
        report = convert(
            args.source,
            args.target,
            dialect=args.dialect,
            registry=registry,
            progress=progress,
            **options.transfer_options(args),
        )
    if args.json:
        result(report.to_json())
        return
    warn(report.warnings)
    if not args.quiet:
        what = f"{report.identity or report.source} from {report.source_dialect} to {report.dialect}"
        say(f"converted {what}: layers {movements(report.layers)}, in {human_time(time.monotonic() - started)}")
    result(report.reference)
