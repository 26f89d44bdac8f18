# SPDX-License-Identifier: Apache-2.0
"""`ocibridge diff`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import human_size, number
from ..operations.options import DiffOptions
from . import options
from .output import columns, printable
from .running import perform

if TYPE_CHECKING:
    from ..operations.reports import DiffReport, FileDifference, LayerDifference, ValueDifference

_ANY = "a path, a reference, or a model of Ollama (ollama:NAME, ollama://…)"
_LETTERS = {"added": "A", "removed": "D", "changed": "M"}
"""Letters of `git diff --name-status`."""


def add(commands: options.Commands[Any]) -> None:
    """Declare the command."""
    parser = options.add_command(
        commands,
        "diff",
        "Compare two models: files, metadata, layers.",
        (
            "ocibridge diff localhost:5000/models/digits:v1 localhost:5000/models/digits:v2",
            "ocibridge diff localhost:5000/models/qwen:v1 ./Qwen2.5-0.5B",
        ),
        see="inspect.md",
    )
    parser.set_defaults(run=run)
    parser.add_argument("before", metavar="A", help=_ANY)
    parser.add_argument("after", metavar="B", help="another one")
    options.add_flags(parser, DiffOptions)


def run(args: argparse.Namespace) -> None:
    """Compare, and print; the status is 0 only if nothing differs.

    Raises:
        SystemExit: something differs (status 1).
    """
    chosen = options.options_of(args, DiffOptions)
    registry = options.registry_of(args)
    from ..operations.diff import diff

    report = perform(
        args,
        lambda progress: diff(args.before, args.after, chosen, registry=registry, progress=progress),
        lambda found: () if args.quiet else described(found),
    )
    if not report.same:
        raise SystemExit(1)


def described(report: DiffReport) -> Iterator[str]:
    """The report for people; nothing where nothing differs."""
    if report.same:
        return
    yield printable(f"--- {report.before.source}")
    yield printable(f"+++ {report.after.source}")
    if report.files:
        yield f"files: {_counts(report)}"
        yield from columns([_file(each) for each in report.files])
    for title, values in (("metadata", report.metadata), ("annotations", report.annotations)):
        yield from _values(title, values)
    if report.layers:
        yield _layers(report.layers)


def _counts(report: DiffReport) -> str:
    counts = [(sum(each.change == change for each in report.files), change) for change in _LETTERS]
    return ", ".join(f"{count} {word}" for count, word in [*counts, (report.same_count, "the same")] if count)


def _file(file: FileDifference) -> tuple[str, str, str]:
    sizes = [human_size(size) for size in (file.before_size, file.after_size) if size is not None]
    return _LETTERS[file.change], " -> ".join(dict.fromkeys(sizes)), file.path


def _values(title: str, values: Sequence[ValueDifference]) -> Iterator[str]:
    if values:
        yield title
    for each in values:
        for sign, value in (("-", each.before), ("+", each.after)):
            if value is not None:
                yield printable(f"  {sign} {each.key}: {value}")


def _layers(layers: LayerDifference) -> str:
    return (
        f"layers: {layers.shared} shared ({human_size(layers.shared_size)}); an update from A to B moves "
        f"{number(layers.added, 'layer')} ({human_size(layers.added_size)})"
    )
