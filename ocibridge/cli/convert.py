# SPDX-License-Identifier: Apache-2.0
"""`ocibridge convert`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ..operations.options import STANDARD_OUTPUT, ConvertOptions
from . import options
from .output import losses
from .pull import files, planned, refuse_json, target_name
from .push import movements
from .running import perform

if TYPE_CHECKING:
    from ..operations.reports import ConvertReport


def add(commands: options.Commands[Any]) -> None:
    """Declare the command."""
    parser = options.add_command(
        commands,
        "convert",
        "Convert a model to another format or another dialect.",
        (
            "ocibridge convert digits.carton ./digits",
            "ocibridge convert ollama:tinyllama ./tinyllama",
            "ocibridge convert localhost:5000/models/digits:v1 localhost:5000/models/digits:cncf --dialect modelpack",
        ),
        "run the same command again; nothing half-done was left, and layers that arrived whole are not sent again",
        "convert.md",
    )
    parser.set_defaults(run=run)
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="path of a model archive or folder, ollama:NAME[:TAG], HOST[:PORT]/REPOSITORY[:TAG|@DIGEST], "
        "oci:DIR[:TAG] or oci-archive:FILE[:TAG]",
    )
    parser.add_argument("target", metavar="TARGET", help="the same, or - for a model of one file on standard output")
    options.add_flags(parser, ConvertOptions, first=("dialect", "overwrite", "dry_run", "as_format"))


def run(args: argparse.Namespace) -> None:
    """Convert, and print the path or the pinned reference of what was written."""
    refuse_json(args, args.target)
    chosen = options.options_of(args, ConvertOptions)
    registry = options.registry_of(args)
    tell = None if args.json else losses
    from ..operations.convert import convert

    perform(
        args,
        lambda progress: convert(
            args.source, args.target, chosen, on_losses=tell, registry=registry, progress=progress
        ),
        _lines,
        _summary,
    )


def _lines(report: ConvertReport) -> list[str]:
    if report.dry_run:
        return planned(report)
    if report.reference:
        return [report.reference]
    return [] if report.target == STANDARD_OUTPUT else [report.target]


def _summary(report: ConvertReport) -> str:
    if report.dry_run:
        name = report.source_identity or "the model"
        return f"would convert {name} to {target_name(report)} {files(report)}"
    name = report.identity or "the model"
    if report.reference:
        origin = report.source_dialect or report.source
        return f"converted {name} from {origin} to {report.dialect}: {movements(report.layers)}"
    return f"converted {name} to {target_name(report)} {files(report)}"
