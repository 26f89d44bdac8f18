# SPDX-License-Identifier: Apache-2.0
"""`ocibridge pull`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ..errors import UsageError, human_size, number
from ..operations.options import STANDARD_OUTPUT, PullOptions
from . import options
from .output import columns, losses
from .running import perform

if TYPE_CHECKING:
    from ..operations.reports import ConvertReport, PullReport


def add(commands: options.Commands[Any]) -> None:
    """Declare the command."""
    parser = options.add_command(
        commands,
        "pull",
        "Restore a model from an OCI artifact.",
        (
            "ocibridge pull localhost:5000/models/digits:v1 digits.carton",
            "ocibridge pull registry.example.com/models/qwen@sha256:… ./qwen",
            "ocibridge pull oci:layout:v1 ollama:digits",
        ),
        "run the same command again to resume",
        "pull.md",
    )
    parser.set_defaults(run=run)
    parser.add_argument("source", metavar="SOURCE", help=options.STORED)
    parser.add_argument(
        "dest",
        metavar="DEST",
        nargs="?",
        help="x.carton and x.mlarchive become archives, x.gguf and the like the only file of a model, - its bytes on "
        "standard output, ollama:NAME[:TAG] a model in the local Ollama store, any other name (or x/) a folder; "
        "default: the name of the model",
    )
    options.add_flags(parser, PullOptions, first=("include", "exclude", "overwrite", "dry_run"))


def run(args: argparse.Namespace) -> None:
    """Restore, and print the pinned reference of what was pulled."""
    refuse_json(args, args.dest)
    chosen = options.options_of(args, PullOptions)
    registry = options.registry_of(args)
    tell = None if args.json else losses
    from ..operations.pull import pull

    perform(
        args,
        lambda progress: pull(args.source, args.dest, chosen, on_losses=tell, registry=registry, progress=progress),
        _lines,
        _summary,
    )


def _lines(report: PullReport) -> list[str]:
    if report.dry_run:
        return planned(report)
    return [] if report.target == STANDARD_OUTPUT else [report.source]


def planned(report: PullReport | ConvertReport) -> list[str]:
    """Return the lines of a dry run: what would happen to each file, its bytes and its path."""
    return columns(
        [(each.action, "-" if each.size is None else human_size(each.size), each.path) for each in report.files], ""
    )


def refuse_json(args: argparse.Namespace, dest: str | None) -> None:
    """Refuse a report on standard output where the model goes.

    Raises:
        UsageError: `--json` is given, and `dest` is `-`.
    """
    if args.json and dest == STANDARD_OUTPUT:
        raise UsageError("the report of --json and the model would both go to standard output", hint="name a file")


def target_name(report: PullReport | ConvertReport) -> str:
    """Return the target, for the summary."""
    return "standard output" if report.target == STANDARD_OUTPUT else report.target


def _summary(report: PullReport) -> str:
    if report.dry_run:
        name = f"{report.source_identity} " if report.source_identity else ""
        return f"would pull {name}to {target_name(report)} {files(report)}"
    name = f"{report.identity} " if report.identity else ""
    kept = f", {human_size(report.kept)} kept from an earlier run" if report.kept else ""
    return f"pulled {name}to {target_name(report)} {files(report)}{kept}"


def files(report: PullReport | ConvertReport) -> str:
    """Return the written files, and what was there before."""
    kind = f"{report.format}, {report.note}" if report.note else report.format
    count = number(report.file_count or 0, "file")
    if report.selected_from is not None:
        count = f"{report.file_count} of {number(report.selected_from, 'file')}"
    changes = report.changes
    counts = ((changes.added, "added"), (changes.updated, "updated"), (changes.kept, "kept"))
    found = ", ".join(f"{count} {word}" for count, word in counts if count)
    new = f" ({found})" if changes.updated or changes.kept else ""
    return f"({kind}): {count}{new}, {human_size(report.size or 0)}"
