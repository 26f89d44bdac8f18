# SPDX-License-Identifier: Apache-2.0
"""`ocibridge pull`."""

from __future__ import annotations

import argparse
import time
from typing import Any

from . import options
from .output import human_size, human_time, losses, result, say, warn


def add(commands: options.Commands[Any]) -> None:
    """Declare the command."""
    parser = options.add_command(
        commands,
        "pull",
        "Restore a model from an OCI artifact.",
        "ocibridge pull localhost:5000/models/digits:v1 digits.carton",
        "run the same command again: it goes on with what has arrived and could be kept",
    )
    parser.set_defaults(run=run)
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="HOST[:PORT]/REPOSITORY[:TAG|@DIGEST] (or oci://HOST…, docker://HOST…), oci:DIR[:TAG] or "
        "oci-archive:FILE[:TAG]",
    )
    parser.add_argument(
        "dest",
        metavar="DEST",
        help="x.carton and x.mlarchive become archives, ollama:NAME[:TAG] a model in the local Ollama store, any other "
        "name a folder",
    )
    options.add_box(parser)
    parser.add_argument(
        "--thin",
        action="store_true",
        help="link the large files of a carton to the registry, instead of fetching them",
    )
    options.add_json(parser)
    options.add_transfer(parser)
    options.add_registry(parser)


def run(args: argparse.Namespace) -> None:
    """Restore, and print the pinned reference of what was pulled."""
    registry = options.registry_options(args)
    from ..operations.options import PullOptions
    from ..operations.pull import pull
    from .progress import shown

    started = time.monotonic()
    with shown(args) as progress:
        report = pull(
            args.source,
            args.dest,
            PullOptions(thin=args.thin, **options.box_options(args), **options.transfer_options(args)),
            on_losses=losses,
            registry=registry,
            progress=progress,
        )
    if args.json:
        result(report.to_json())
        return
    warn(report.warnings)
    if not args.quiet:
        name = f"{report.identity} " if report.identity else ""
        amount = f"{report.files} files, {human_size(report.size)}"
        kind = f"{report.format}, {report.note}" if report.note else report.format
        kept = f", {human_size(report.kept)} kept from an earlier run" if report.kept else ""
        say(f"pulled {name}to {report.path} ({kind}): {amount}{kept}, in {human_time(time.monotonic() - started)}")
    result(report.reference)
