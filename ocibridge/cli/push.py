# SPDX-License-Identifier: Apache-2.0
"""`ocibridge push`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import human_size
from ..operations.options import PushOptions
from . import options
from .running import perform

if TYPE_CHECKING:
    from ..operations.reports import PushedLayer, PushReport


def add(commands: options.Commands[Any]) -> None:
    """Declare the command."""
    parser = options.add_command(
        commands,
        "push",
        "Publish a model as an OCI artifact.",
        (
            "ocibridge push digits.carton localhost:5000/models/digits:v1",
            "ocibridge push ./Qwen2.5-0.5B registry.example.com/models/qwen:v1 --also image",
            "ocibridge push ollama:tinyllama oci:layout:v1",
        ),
        "run the same command again; layers that arrived whole are not sent again",
        "publish.md",
    )
    parser.set_defaults(run=run)
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="path of a model archive or folder, ollama:NAME[:TAG], or ollama://HOST/NAMESPACE/NAME[:TAG]",
    )
    parser.add_argument("target", metavar="TARGET", help=options.TARGET)
    options.add_flags(parser, PushOptions, first=("also", "annotations", "layers", "compress"))


def run(args: argparse.Namespace) -> None:
    """Publish, and print the pinned reference."""
    chosen = options.options_of(args, PushOptions)
    registry = options.registry_of(args)
    from ..operations.push import push

    perform(
        args,
        lambda progress: push(args.source, args.target, chosen, registry=registry, progress=progress),
        lambda report: [report.reference],
        summary,
    )


def summary(report: PushReport) -> str:
    """Format the summary: layers that were uploaded, and those that were not."""
    name = report.identity or report.format
    also = "".join(f", also {each.reference}" for each in report.also)
    return f"pushed {name}: layers {movements(report.layers)}{also}"


def movements(layers: Sequence[PushedLayer]) -> str:
    """Format the number of layers by action."""
    blobs = {layer.digest: layer for layer in layers}.values()

    def part(action: str) -> str:
        sizes = [layer.size for layer in blobs if layer.action == action]
        return f"{len(sizes)} {action} ({human_size(sum(sizes))})" if sizes else ""

    return ", ".join(text for text in map(part, ("uploaded", "skipped", "mounted")) if text) or "none"
