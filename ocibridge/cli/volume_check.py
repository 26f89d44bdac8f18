# SPDX-License-Identifier: Apache-2.0
"""`ocibridge volume check`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ..errors import human_size
from ..volume.options import VolumeCheckOptions
from . import options
from .output import columns, printable
from .running import show

if TYPE_CHECKING:
    from ..volume.reports import Prediction, VolumeCheckReport


def add(commands: options.Commands[Any]) -> None:
    """Declare the command."""
    parser = options.add_command(
        commands,
        "check",
        "Say what pods would see of an artifact, of any tool, and what repairs it where that is not the model.",
        "ocibridge volume check localhost:5000/models/digits:v1-image --runtime containerd --version 2.1",
    )
    parser.set_defaults(run=run)
    parser.add_argument("reference", metavar="REFERENCE", help="an artifact or image, of whatever tool")
    options.add_flags(parser, VolumeCheckOptions)


def run(args: argparse.Namespace) -> None:
    """Check, and print; the status is 0 only where a pod would see the model.

    Raises:
        SystemExit: it would not (status 1).
    """
    chosen = options.options_of(args, VolumeCheckOptions)
    registry = options.registry_of(args)
    from ..volume.check import volume_check

    report = volume_check(args.reference, chosen, registry=registry)
    show(args, report, described)
    if not report.ok:
        raise SystemExit(1)


def described(report: VolumeCheckReport) -> list[str]:
    """The report for people."""
    lines = [printable(f"{report.source} is {report.kind}"), *_predictions(report.runtimes)]
    shown = report.runtimes
    if report.companion is not None:
        platforms = ", ".join(report.companion.platforms)
        ok = any(each.ok for each in report.companion.runtimes)
        lines += ["", f"it has an image for pods ({printable(platforms)}){'; mount this one' if ok else ''}:"]
        lines += [f"  {printable(report.companion.reference)}", *_predictions(report.companion.runtimes)]
        shown = [*shown, *report.companion.runtimes]
    best = next((each for each in shown if each.ok), None) or next((each for each in shown if each.files), None)
    return lines + (_tree(best) if best is not None else [])


def _predictions(found: list[Prediction]) -> list[str]:
    lines = []
    for each in found:
        verdict = "does not mount" if each.verdict == "refused" else each.verdict
        lines.append(printable(f"  {each.version}: {verdict}; {each.reason}"))
        if each.repair is not None:
            lines.append(printable(f"    repair it with: {each.repair}"))
        lines += [printable(f"    hazard: {hazard}") for hazard in each.hazards]
    return lines


def _tree(found: Prediction) -> list[str]:
    rows = [
        (human_size(each.size), each.path + (f" -> {each.symlink}" if each.symlink else "")) for each in found.files
    ]
    rows += [(human_size(each.size), f"(not read: {each.reason}) {each.digest}") for each in found.unread]
    if not rows:
        return []
    return ["", printable(f"what {found.version} shows ({len(found.files)})"), *columns(rows)]
