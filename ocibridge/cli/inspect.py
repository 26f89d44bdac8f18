# SPDX-License-Identifier: Apache-2.0
"""`ocibridge inspect`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import human_size
from ..operations.options import InspectOptions
from . import options
from .output import columns, printable, result_bytes
from .running import show

if TYPE_CHECKING:
    from ..operations.reports import InspectReport, ReferrerReport
    from ..stores.registry import RegistryOptions

_Node = tuple[str, list[Any]]
"""A line of a tree, and the nodes below it."""
_SHORT = 12


def add(commands: options.Commands[Any]) -> None:
    """Declare the command."""
    parser = options.add_command(
        commands,
        "inspect",
        "Show what a model is: metadata, files, layers, identity.",
        (
            "ocibridge inspect localhost:5000/models/digits:v1",
            "ocibridge inspect ./Qwen2.5-0.5B --json",
            "ocibridge inspect --raw localhost:5000/models/digits:v1",
        ),
        see="inspect.md",
    )
    parser.set_defaults(run=run)
    parser.add_argument(
        "subject", metavar="MODEL", help="a path, a reference, or a model of Ollama (ollama:NAME, ollama://…)"
    )
    parser.add_argument("--raw", action="store_true", help="print the manifest or index as it is stored, of anything")
    parser.add_argument("--config", action="store_true", help="print the config object as it is stored")
    options.add_flags(parser, InspectOptions)


def run(args: argparse.Namespace) -> None:
    """Inspect, and print."""
    chosen = options.options_of(args, InspectOptions)
    registry = options.registry_of(args)
    if args.raw or args.config:
        _raw(args, registry)
        return
    from ..operations.inspect import inspect

    show(args, inspect(args.subject, chosen, registry=registry), described)


def _raw(args: argparse.Namespace, registry: RegistryOptions | None) -> None:
    """Print a document byte for byte."""
    from ..errors import UsageError
    from ..operations.inspect import raw_manifest
    from ..operations.sources import subject_of

    subject = subject_of(args.subject)
    if isinstance(subject, tuple):
        flag = "--raw" if args.raw else "--config"
        raise UsageError(f"{flag} is for artifacts, and {subject} is none", hint="leave it out, or give a reference")
    result_bytes(raw_manifest(subject, config=args.config, registry=registry))


def described(report: InspectReport) -> list[str]:
    """The report for people: short digests in tables, first lines of long texts; `--json` has it all."""
    head = {
        "source": report.source,
        "identity": report.identity,
        "digest": report.digest,
        "format": report.format,
        "dialect": report.dialect,
        "artifact type": report.artifact_type,
        "size": human_size(report.size),
    }
    info = _rows(report.info.model_dump(by_alias=True))
    origin = _rows(report.origin)
    seen = {value for _, value in [*_rows(head), *info, *origin]}
    annotations = [row for row in _rows(report.annotations) if row[1] not in seen]
    lines = columns(_rows(head), indent="")
    for title, rows in (("metadata", info), ("origin", origin), ("annotations", annotations)):
        if rows:
            lines += ["", title, *columns(rows)]
    return lines + _files(report) + _layers(report) + _relations(report)


def _rows(mapping: Mapping[str, object]) -> list[tuple[str, str]]:
    rows = []
    for key, value in mapping.items():
        text = ", ".join(value) if isinstance(value, list) else str(value or "")
        first, *more = text.strip().splitlines() or [""]
        if first:
            rows.append((key, first + (" …" if more else "")))
    return rows


def _layers(report: InspectReport) -> list[str]:
    rows = [(human_size(each.size), each.digest.partition(":")[2][:_SHORT], each.media_type) for each in report.layers]
    if not rows:
        return []
    return ["", f"layers ({len(rows)})", *columns([("size", "digest", "media type"), *rows])]


def _files(report: InspectReport) -> list[str]:
    rows = [
        (
            each.role,
            "-" if each.size is None else human_size(each.size),
            each.sha256[:_SHORT] if each.sha256 else "-",
            each.path + (f" -> {each.symlink}" if each.symlink else "") + (" (linked)" if each.linked else ""),
        )
        for each in report.files
    ]
    return ["", f"files ({len(rows)})", *columns([("role", "size", "sha256", "path"), *rows])]


def _relations(report: InspectReport) -> list[str]:
    """Companions and referrers as a tree below the artifact."""
    companions: list[_Node] = [(f"{each.tag} ({each.kind})  {each.reference}", []) for each in report.companions]
    titled = {"companions": companions, "referrers": _nodes(report.referrers)}
    branches = [(title, nodes) for title, nodes in titled.items() if nodes]
    return ["", printable(report.source), *_tree(branches)] if branches else []


def _nodes(referrers: Sequence[ReferrerReport]) -> list[_Node]:
    return [
        (f"{each.artifact_type or each.media_type}  {each.reference}", _nodes(each.referrers)) for each in referrers
    ]


def _tree(nodes: Sequence[_Node], indent: str = "") -> Iterator[str]:
    for number, (text, below) in enumerate(nodes, 1):
        last = number == len(nodes)
        yield indent + ("└── " if last else "├── ") + printable(text)
        yield from _tree(below, indent + ("    " if last else "│   "))
