# SPDX-License-Identifier: Apache-2.0
"""`ocibridge volume check`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from . import options
from .output import columns, human_size, printable, result, warn

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
    parser.add_argument("--runtime", choices=("containerd", "cri-o"), help="of the nodes (default: both)")
    parser.add_argument(
        "--version", dest="runtime_version", metavar="X.Y", help="version of the runtime (default: the current one)"
    )
    parser.add_argument(
        "--platform", default="linux/amd64", metavar="OS/ARCH", help="of the nodes (default: %(default)s)"
    )
    parser.add_argument(
        "--read",
        action="store_true",
        help="read and verify every layer, not only what the manifest and tar headers say",
    )
    options.add_json(parser)
    options.add_registry(parser)


def run(args: argparse.Namespace) -> None:
    """Check, and print; the status is 0 only where a pod would see the model.

    Raises:
        SystemExit: it would not (status 1).
    """
    registry = options.registry_options(args)
    from ..volume.check import volume_check
    from ..volume.options import VolumeCheckOptions

    report = volume_check(
        args.reference,
        VolumeCheckOptions(runtime=args.runtime, version=args.runtime_version, platform=args.platform, read=args.read),
        registry=registry,
    )
    if args.json:
        result(report.to_json())
    else:
        warn(report.warnings)
        result(*described(report))
    if not report.ok:
        raise SystemExit(1)


def described(report: VolumeCheckReport) -> list[str]:
    """The report for people."""
    lines = [printable(f"{report.subject} is {report.kind}"), *_predictions(report.runtimes)]
    shown = report.runtimes
    if report.companion is not None:
        platforms = ", ".join(report.companion.platforms)
        lines += ["", f"it has an image for pods ({printable(platforms)}); mount this one:"]
        lines += [f"  {printable(report.companion.reference)}", *_predictions(report.companion.runtimes)]
        shown = [*shown, *report.companion.runtimes]
    best = next((each for each in shown if each.ok), None) or next((each for each in shown if each.files), None)
    return lines + (_tree(best) if best is not None else [])


def _predictions(found: list[Prediction]) -> list[str]:
    lines = []
    for each in found:
        lines.append(printable(f"  {each.version}: {each.verdict}; {each.reason}"))
        if not each.image_volumes:
            lines.append(printable(f"    {each.version} mounts no image volumes in pods"))
        if each.repair is not None:
            lines.append(printable(f"    repair it with: {each.repair}"))
        lines += [printable(f"    hazard: {hazard}") for hazard in each.hazards]
    return lines


def _tree(found: Prediction) -> list[str]:
    rows = [(human_size(each.size), each.path + (f" -> {each.link}" if each.link else "")) for each in found.files]
    rows += [(human_size(each.size), f"(not read: {each.reason}) {each.digest}") for each in found.unread]
    if not rows:
        return []
    return ["", printable(f"what {found.version} shows ({len(found.files)})"), *columns(rows)]
