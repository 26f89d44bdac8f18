# SPDX-License-Identifier: Apache-2.0
"""`ocibridge volume`: models as volumes of Kubernetes pods."""

from __future__ import annotations

import argparse
import time
from typing import Any

from . import options, volume_check, volume_manifest
from .output import human_time, result, say, warn


def add(commands: options.Commands[Any]) -> None:
    """Declare the command and its own commands."""
    parser = options.add_command(
        commands,
        "volume",
        "Make models mount in Kubernetes.",
        "ocibridge volume prepare localhost:5000/models/digits:v1",
    )
    parts = parser.add_subparsers(title="commands", metavar="COMMAND")
    parser.set_defaults(run=lambda _: parser.print_help())
    _add_prepare(parts)
    volume_check.add(parts)
    volume_manifest.add(parts)


# prepare


def _add_prepare(commands: options.Commands[Any]) -> None:
    parser = options.add_command(
        commands,
        "prepare",
        "Publish an image of an artifact's layers beside it, which pods can mount.",
        "ocibridge volume prepare localhost:5000/models/digits:v1",
        "run the same command again; layers that arrived whole are not sent again",
    )
    parser.set_defaults(run=_prepare)
    parser.add_argument(
        "reference",
        metavar="REFERENCE",
        help="a model: HOST[:PORT]/REPOSITORY[:TAG], oci:DIR[:TAG] or oci-archive:FILE[:TAG]",
    )
    parser.add_argument(
        "target", metavar="TARGET", nargs="?", help="where else the image goes, as the tag given here with the suffix"
    )
    options.add_platform(parser)
    parser.add_argument(
        "--suffix", help="what the tag of the image has after the artifact's, written --suffix=-image (the default)"
    )
    options.add_max_layers(parser)
    options.add_json(parser)
    options.add_cache(parser)
    options.add_transfer(parser)
    options.add_registry(parser)


def _prepare(args: argparse.Namespace) -> None:
    registry = options.registry_options(args)
    from ..volume.options import PrepareOptions
    from ..volume.prepare import volume_prepare
    from .progress import shown
    from .push import movements

    started = time.monotonic()
    suffix = {} if args.suffix is None else {"suffix": args.suffix}
    with shown(args) as progress:
        report = volume_prepare(
            args.reference,
            args.target,
            PrepareOptions(cache=args.cache, **suffix, **options.image_options(args), **options.transfer_options(args)),
            registry=registry,
            progress=progress,
        )
    if args.json:
        result(report.to_json())
        return
    warn(report.warnings)
    if not args.quiet:
        seconds = human_time(time.monotonic() - started)
        platforms = ", ".join(each.platform for each in report.platforms)
        say(f"prepared the image {report.tag} for {platforms}: layers {movements(report.layers)}, in {seconds}")
    result(report.reference)
