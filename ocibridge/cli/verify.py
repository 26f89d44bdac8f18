# SPDX-License-Identifier: Apache-2.0
"""`ocibridge verify`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ..operations.options import VerifyOptions
from . import options
from .output import printable, tick
from .running import perform

if TYPE_CHECKING:
    from ..operations.reports import VerifyReport

UNPROVEN = 3
"""Exit status where there is nothing to compare with."""


def add(commands: options.Commands[Any]) -> None:
    """Declare the command."""
    parser = options.add_command(
        commands,
        "verify",
        "Read every byte of a model, check it, and say what is proven.",
        (
            "ocibridge verify localhost:5000/models/digits:v1",
            "ocibridge verify digits.carton",
            "ocibridge verify ./Qwen2.5-0.5B --against localhost:5000/models/qwen:v1",
        ),
        see="pull.md",
    )
    parser.set_defaults(run=run)
    parser.add_argument(
        "subject", metavar="MODEL", help="a path, a reference, or a model of Ollama (ollama:NAME, ollama://…)"
    )
    options.add_flags(parser, VerifyOptions)


def run(args: argparse.Namespace) -> None:
    """Verify, and print what holds.

    Raises:
        SystemExit: there was nothing to compare the bytes with (status 3).
    """
    chosen = options.options_of(args, VerifyOptions)
    registry = options.registry_of(args)
    from ..operations.verify import verify

    report = perform(
        args,
        lambda progress: verify(args.subject, chosen, registry=registry, progress=progress),
        lambda report: [] if args.quiet and report.verified else _lines(report),
    )
    if not report.verified:
        raise SystemExit(UNPROVEN)


def _lines(report: VerifyReport) -> list[str]:
    mark = tick() if report.verified else "-"
    lines = [printable(report.source), *(f"  {mark} {printable(sentence)}" for sentence in report.proven)]
    if report.verified:
        return [*lines, "verified"]
    reference = printable(report.pulled_from or "REF")
    return [*lines, f"nothing to compare with: the files have no checksums of their own; give --against {reference}"]
