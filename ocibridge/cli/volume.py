# SPDX-License-Identifier: Apache-2.0
"""`ocibridge volume`: models as volumes of Kubernetes pods."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ..volume.options import PrepareOptions
from . import options, volume_check, volume_manifest
from .push import movements
from .running import perform

if TYPE_CHECKING:
    from ..operations.reports import PrepareReport


def add(commands: options.Commands[Any]) -> None:
    """Declare the command and its own commands."""
    parser = options.add_command(
        commands,
        "volume",
        "Make models mount in Kubernetes.",
        (
            "ocibridge volume prepare localhost:5000/models/digits:v1",
            "ocibridge volume check localhost:5000/models/digits:v1",
            "ocibridge volume manifest localhost:5000/models/digits:v1",
        ),
        see="kubernetes.md",
    )
    parts = options.add_commands(parser)
    _add_prepare(parts)
    volume_check.add(parts)
    volume_manifest.add(parts)


# prepare


def _add_prepare(commands: options.Commands[Any]) -> None:
    parser = options.add_command(
        commands,
        "prepare",
        "Publish an image with the layers of an artifact, which pods can mount.",
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
    options.add_flags(parser, PrepareOptions)


def _prepare(args: argparse.Namespace) -> None:
    chosen = options.options_of(args, PrepareOptions)
    registry = options.registry_of(args)
    from ..volume.prepare import volume_prepare

    perform(
        args,
        lambda progress: volume_prepare(args.reference, args.target, chosen, registry=registry, progress=progress),
        lambda report: [report.reference],
        _prepared,
    )


def _prepared(report: PrepareReport) -> str:
    platforms = ", ".join(each.platform for each in report.platforms)
    return f"prepared the image {report.tag} for {platforms}: {movements(report.layers)}"
