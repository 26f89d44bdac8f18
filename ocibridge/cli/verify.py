# SPDX-License-Identifier: Apache-2.0
"""`ocibridge verify`."""

from __future__ import annotations

import argparse
from typing import Any

from . import options
from .output import printable, result, tick, warn


def add(commands: options.Commands[Any]) -> None:
    """Declare the command."""
    parser = options.add_command(
        commands,
        "verify",
        "Read every byte of a model, check it, and say what is proven.",
        "ocibridge verify localhost:5000/models/digits:v1",
    )
    parser.set_defaults(run=run)
    parser.add_argument(
        "subject", metavar="ANY", help="a path, a reference, or a model of Ollama (ollama:NAME, ollama://…)"
    )
    parser.add_argument(
        "--manifest-only",
        action="store_true",
        help="prove the identity of a carton in raw-files layers from its manifest alone, reading no file",
    )
    options.add_json(parser)
    options.add_links(parser)
    options.add_transfer(parser)
    options.add_registry(parser)


def run(args: argparse.Namespace) -> None:
    """Verify, and print what holds."""
    links = options.links_options(args)
    registry = options.registry_options(args)
    from ..operations.options import VerifyOptions
    from ..operations.verify import verify
    from .progress import shown

    with shown(args) as progress:
        report = verify(
            args.subject,
            VerifyOptions(manifest_only=args.manifest_only, reading=links, **options.transfer_options(args)),
            registry=registry,
            progress=progress,
        )
    if args.json:
        result(report.to_json())
        return
    warn(report.warnings)
    mark = tick()
    result(
        printable(report.subject),
        *(f"  {mark} {printable(sentence)}" for sentence in report.proven),
        "verified",
    )
