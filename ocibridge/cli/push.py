# SPDX-License-Identifier: Apache-2.0
"""`ocibridge push`."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

from . import options
from .output import human_size, human_time, result, say, warn
from .values import key_values, moment

if TYPE_CHECKING:
    from ..verbs.reports import PushReport


def add(commands: options.Commands[Any]) -> None:
    """Declare the command."""
    parser = options.add_command(
        commands,
        "push",
        "Publish a model as an OCI artifact.",
        "ocibridge push digits.carton localhost:5000/models/digits:v1",
        "run the same command again; layers that arrived whole are not sent again",
    )
    parser.set_defaults(run=run)
    parser.add_argument("source", metavar="SOURCE", help="path of a model archive or folder")
    parser.add_argument(
        "target", metavar="TARGET", help="HOST[:PORT]/REPOSITORY[:TAG], oci:DIR[:TAG] or oci-archive:FILE[:TAG]"
    )
    parser.add_argument(
        "--layers",
        choices=("tar", "raw", "raw-files"),
        default="tar",
        help="tar layers (default), weights as they are, or every file as it is",
    )
    parser.add_argument(
        "--compress", choices=("none", "gzip", "zstd"), default="none", help="compress tar layers (default: none)"
    )
    parser.add_argument(
        "-a",
        "--annotation",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="annotation of the manifest (may be given several times)",
    )
    parser.add_argument(
        "--created",
        type=moment,
        metavar="TIME",
        help="creation time to record, RFC 3339 or seconds since 1970 (default: SOURCE_DATE_EPOCH, else none)",
    )
    options.add_json(parser)
    options.add_links(parser)
    options.add_transfer(parser)
    options.add_registry(parser)


def run(args: argparse.Namespace) -> None:
    """Publish, and print the pinned reference."""
    annotations = key_values(args.annotation)
    links = options.links_options(args)
    registry = options.registry_options(args)
    from ..verbs.push import push
    from .progress import shown

    started = time.monotonic()
    with shown(args) as progress:
        report = push(
            args.source,
            args.target,
            layers=args.layers,
            compress=args.compress,
            annotations=annotations,
            created=args.created,
            registry=registry,
            progress=progress,
            **links,
            **options.transfer_options(args),
        )
    if args.json:
        result(report.to_json())
        return
    warn(report.warnings)
    if not args.quiet:
        say(summary(report, time.monotonic() - started))
    result(report.reference)


def summary(report: PushReport, seconds: float) -> str:
    """What was sent, and what was saved."""
    blobs = {layer.digest: layer for layer in report.layers}.values()

    def part(action: str) -> str:
        sizes = [layer.size for layer in blobs if layer.action == action]
        return f"{len(sizes)} {action} ({human_size(sum(sizes))})" if sizes else ""

    parts = [text for text in map(part, ("uploaded", "skipped", "mounted")) if text]
    name = report.identity or report.format
    return f"pushed {name}: layers {', '.join(parts) or 'none'}, in {human_time(seconds)}"
