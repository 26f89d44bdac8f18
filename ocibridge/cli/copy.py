# SPDX-License-Identifier: Apache-2.0
"""`ocibridge copy`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ..errors import UsageError, human_size, number
from ..operations.options import CopyOptions
from . import copy_many, options
from .output import columns, printable
from .running import perform

if TYPE_CHECKING:
    from ..operations.reports import CopyReport


def add(commands: options.Commands[Any]) -> None:
    """Declare the command."""
    parser = options.add_command(
        commands,
        "copy",
        "Copy a model from store to store, with its signatures and companions.",
        (
            "ocibridge copy localhost:5000/models/digits:v1 registry.example.com/mirror/digits",
            "ocibridge copy localhost:5000/models/digits@sha256:… oci:layout:v1",
            "ocibridge copy localhost:5000/models/digits:v1 --to oci-archive:models.tar",
            "ocibridge copy --from oci-archive:models.tar --to registry.example.com/restored",
        ),
        "run the same command again; blobs that arrived whole are not sent again",
        "copy.md",
    )
    parser.set_defaults(run=run)
    parser.add_argument(
        "references",
        nargs="*",
        metavar="REFERENCE",
        help=f"SOURCE and TARGET, each {options.STORED}; a target without tag gets that of the source "
        "(with --to: sources)",
    )
    copy_many.add(parser)
    options.add_flags(parser, CopyOptions, *copy_many.KINDS, first=("dry_run", "platforms"))
    options.add_source_registry(parser)


def run(args: argparse.Namespace) -> None:
    """Copy, and print the pinned reference of the copy."""
    if copy_many.asked(args):
        copy_many.run(args, args.references)
        return
    copy_many.refuse(args)
    if len(args.references) != 2:
        raise UsageError(
            "a copy needs a source and a target", hint="write 'ocibridge copy SOURCE TARGET', or see --to for many"
        )
    source, target = args.references
    chosen = options.options_of(args, CopyOptions)
    if args.from_password_stdin and args.password_stdin:
        raise UsageError(
            "standard input has one password, and two are to be read from it",
            hint="log in to one of the two registries first, with 'ocibridge login'",
        )
    source_registry = options.registry_of(args, "from")
    registry = options.registry_of(args)
    from ..operations.copy import copy

    perform(
        args,
        lambda progress: copy(
            source,
            target,
            chosen,
            registry=registry,
            source_registry=source_registry,
            progress=progress,
        ),
        lambda report: _planned(report) if report.dry_run else [report.reference],
        lambda report: (
            "dry run: nothing was written" if report.dry_run else f"copied {report.source}: {summary(report)}"
        ),
    )


def _planned(report: CopyReport) -> list[str]:
    moves = report.moves
    rows = (
        ("copy", moves.copied, "blob", moves.copied_bytes),
        ("mount", moves.mounted, "blob", moves.mounted_bytes),
        ("skip", moves.present, "blob", moves.present_bytes),
        ("push", moves.manifests, "manifest", None),
    )
    table = [
        (word, number(count, noun), "" if size is None else human_size(size))
        for word, count, noun, size in rows
        if count
    ]
    return [
        printable(f"{report.source} to {report.reference}"),
        *columns([*table, ("tag", " ".join(report.tags), "")] if report.tags else table),
    ]


def summary(report: CopyReport) -> str:
    """Format the summary: blobs that were transferred, and those that were not."""
    moves = report.moves
    counts = (
        (moves.copied, "copied", moves.copied_bytes),
        (moves.mounted, "mounted", moves.mounted_bytes),
        (moves.present, "present", moves.present_bytes),
    )
    blobs = ", ".join(f"{number} {word} ({human_size(size)})" for number, word, size in counts if number) or "none"
    referrers = f", {report.referrers} referrers" if report.referrers else ""
    also = "".join(f", also {each.tag}" for each in report.companions)
    return f"blobs {blobs}{referrers}{also}"
