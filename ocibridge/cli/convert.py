# SPDX-License-Identifier: Apache-2.0
"""`ocibridge convert`."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

from . import options
from .output import human_size, human_time, losses, result, say, warn
from .push import movements

if TYPE_CHECKING:
    from ..operations.reports import ConvertReport, PullReport, RewriteReport


def add(commands: options.Commands[Any]) -> None:
    """Declare the command."""
    parser = options.add_command(
        commands,
        "convert",
        "Make another box or artifact of a model: another archive, another dialect.",
        "ocibridge convert localhost:5000/models/digits:v1 localhost:5000/models/digits:cncf --dialect modelpack",
        "run the same command again; nothing half-done was left, and layers that arrived whole are not sent again",
    )
    parser.set_defaults(run=run)
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="path of a model archive or folder, ollama:NAME[:TAG], HOST[:PORT]/REPOSITORY[:TAG|@DIGEST], "
        "oci:DIR[:TAG] or oci-archive:FILE[:TAG]",
    )
    parser.add_argument("target", metavar="TARGET", help="the same")
    options.add_dialect(parser)
    options.add_box(parser)
    options.add_json(parser)
    options.add_links(parser)
    options.add_cache(parser)
    options.add_transfer(parser)
    options.add_registry(parser)


def run(args: argparse.Namespace) -> None:
    """Convert, and print the path or the pinned reference of what was written."""
    registry = options.registry_options(args)
    links = options.links_options(args)
    box = options.box_options(args)
    from ..operations.convert import convert
    from ..operations.options import ConvertOptions
    from ..operations.reports import RewriteReport
    from .progress import shown

    started = time.monotonic()
    with shown(args) as progress:
        report = convert(
            args.source,
            args.target,
            ConvertOptions(
                dialect=args.dialect, cache=args.cache, reading=links, **box, **options.transfer_options(args)
            ),
            on_losses=losses,
            registry=registry,
            progress=progress,
        )
    if args.json:
        result(report.to_json())
        return
    warn(report.warnings)
    if not args.quiet:
        say(f"converted {_summary(report)}, in {human_time(time.monotonic() - started)}")
    result(report.path if isinstance(report, RewriteReport) else report.reference)


def _summary(report: ConvertReport | PullReport | RewriteReport) -> str:
    from ..operations.reports import ConvertReport

    name = report.identity or "the model"
    if isinstance(report, ConvertReport):
        origin = report.source_dialect or report.source
        return f"{name} from {origin} to {report.dialect}: layers {movements(report.layers)}"
    kind = f"{report.format}, {report.note}" if report.note else report.format
    return f"{name} to {report.path} ({kind}): {report.files} files, {human_size(report.size)}"
