# SPDX-License-Identifier: Apache-2.0
"""`ocibridge push`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import human_size
from ..operations.companions import IMAGE
from ..operations.options import PushOptions
from . import options
from .output import columns
from .running import perform, show

if TYPE_CHECKING:
    from ..operations.pushplan import PushPlan
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
    parser.add_argument("target", metavar="TARGET", help=options.TARGET.replace("[:TAG]", "[:TAG,…]"))
    options.add_flags(parser, PushOptions, first=("also", "annotations", "layers", "compress"))
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would be published; no weight is read and nothing is sent"
    )


def run(args: argparse.Namespace) -> None:
    """Publish, and print the pinned references."""
    chosen = options.options_of(args, PushOptions)
    registry = options.registry_of(args)
    from ..operations.push import plan_push, push
    from ..operations.tags import parse_tags

    if args.dry_run:
        plan = plan_push(args.source, args.target, chosen, registry=registry)
        show(args, plan, planned, "" if args.quiet else "dry run: nothing was sent")
        return
    perform(
        args,
        lambda progress: push(args.source, args.target, chosen, registry=registry, progress=progress),
        lambda report: published(report, args.quiet),
        lambda report: summary(report, untagged=parse_tags(args.target)[0].tag is None),
    )


def planned(plan: PushPlan) -> Iterator[str]:
    """Format what would be published."""
    size = human_size(sum(each.size or 0 for each in plan.files))
    yield f"{plan.identity or plan.format}: {_counted(len(plan.files), 'file')}, {size}"
    yield from columns([each.role, each.path, human_size(each.size or 0)] for each in plan.files)
    yield _counted(len(plan.layers), "layer")
    yield from columns([each.media_type, each.title, human_size(each.size)] for each in plan.layers)
    if plan.left_out:
        yield "left out"
        yield from columns([each.path, each.reason.removeprefix("left out, being ")] for each in plan.left_out)
    yield f"target {plan.target}"
    yield from columns([kind, ", ".join(tags)] for kind, tags in _tags(plan))


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _tags(plan: PushPlan) -> Iterator[tuple[str, list[str]]]:
    yield "artifact", plan.tags
    for each in plan.also:
        yield _label(each.kind), each.tags


def _label(kind: str) -> str:
    """The label of a companion of this kind: what it is for."""
    return "mountable" if kind == IMAGE else kind


def published(report: PushReport, quiet: bool = False) -> list[str]:
    """Format everything that was published, pinned: the artifact alone if `quiet`, else what each is for, too."""
    if quiet:
        return [report.reference]
    rows = [("artifact", report.reference)]
    rows += [(_label(each.kind), each.reference) for each in report.also]
    return [f"{label:9}  {reference}" for label, reference in rows]


def summary(report: PushReport, *, untagged: bool = False) -> str:
    """Format the summary: the tags, layers that were uploaded, and those that were not.

    Args:
        report: What was done.
        untagged: Whether the user gave no tag.
    """
    name, place = report.identity or report.format, report.reference.rpartition("@")[0]
    tags = ",".join(report.tags) + (" (no tag was given)" if untagged else "")
    also = "".join(f", also {','.join(each.tags)}" for each in report.also)
    return f"pushed {name} as {place}:{tags}: {movements(report.layers)}{also}"


def movements(layers: Sequence[PushedLayer]) -> str:
    """Format the number of layers by action.

    Example:
        `6 layers uploaded (70.5 KiB), 1 skipped (1.0 KiB)`
    """
    blobs = {layer.digest: layer for layer in layers}.values()
    found: list[str] = []
    for action in ("uploaded", "skipped", "mounted"):
        if sizes := [layer.size for layer in blobs if layer.action == action]:
            noun = "" if found else " layer" if len(sizes) == 1 else " layers"
            found.append(f"{len(sizes)}{noun} {action} ({human_size(sum(sizes))})")
    return ", ".join(found) or "no layers"
