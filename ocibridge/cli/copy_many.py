# SPDX-License-Identifier: Apache-2.0
"""`ocibridge copy` of many references: into one archive for the other side of an air gap, and out of it."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

from . import options
from .output import human_size, human_time, number, result, say, warn


def add(parser: options.Parser) -> None:
    """Declare the arguments."""
    group = parser.add_argument_group(
        "many references in one archive, for the other side of an air gap",
        "REFERENCE… --to oci-archive:FILE packs, --from oci-archive:FILE --to HOST/PREFIX restores",
    )
    group.add_argument("--to", metavar="PLACE", help="oci-archive:FILE to pack; HOST[/PREFIX] or oci:DIR to restore")
    group.add_argument(
        "--from", dest="from_archive", metavar="ARCHIVE", help="the archive to restore: oci-archive:FILE"
    )
    group.add_argument("--inventory", metavar="FILE", help="write an inventory of what the other side has afterwards")
    group.add_argument(
        "--since", metavar="INVENTORY", help="leave out what the other side has according to this inventory"
    )
    group.add_argument("--volume-size", type=_size, metavar="SIZE", help="split the archive: 4GiB, 700MiB, 25GB")
    group.add_argument("--strip", default="", metavar="PREFIX", help="leading parts of repositories to leave out")
    group.add_argument("--force", action="store_true", help="replace the archive if it exists")


def _size(text: str) -> int:
    from ..operations.values import parse_size

    try:
        return parse_size(text)
    except ValueError as exc:
        raise argparse.ArgumentTypeError(str(exc)) from None


def asked(args: argparse.Namespace) -> bool:
    """Whether the command line asks for this kind of copy."""
    return any((args.to, args.from_archive, args.inventory, args.since, args.volume_size, args.strip, args.force))


def belongings(args: argparse.Namespace) -> dict[str, Any]:
    """What comes along with a reference, in the words of `ocibridge.copy` and `ocibridge.airgap.pack`."""
    return {
        "platforms": args.platform or (),
        "referrers": not args.no_referrers,
        "digest_tags": not args.no_digest_tags,
        "companions": not args.no_companions,
    }


def run(args: argparse.Namespace, references: Sequence[str]) -> None:
    """Pack or restore.

    Args:
        args: What `add` declares, and the other options of `ocibridge copy`.
        references: The positional arguments.
    """
    from ..errors import UsageError

    if not args.to:
        raise UsageError(
            "where the copies go is missing",
            hint="give --to oci-archive:FILE to pack, or --from oci-archive:FILE --to HOST/PREFIX to restore",
        )
    names = ["--from-insecure", "--from-ca-file", "--from-username", "--from-password-stdin", "--from-plain-http"]
    _refuse(args, names, "a copy from SOURCE to TARGET")
    if args.from_archive is None:
        _pack(args, references)
    else:
        _unpack(args, references)


def _refuse(args: argparse.Namespace, names: Sequence[str], what: str) -> None:
    from ..errors import UsageError

    for name in names:
        if getattr(args, name.lstrip("-").replace("-", "_"), None):
            raise UsageError(f"{name} is for {what}", hint="leave it out")


def _pack(args: argparse.Namespace, references: Sequence[str]) -> None:
    from ..errors import UsageError

    _refuse(args, ["--strip", "--full"], "restoring an archive")
    if not args.to.startswith("oci-archive:"):
        raise UsageError(
            f"many references go into one archive, and {args.to} is none",
            hint="write --to oci-archive:FILE; for registries, write a job for 'ocibridge mirror'",
        )
    registry = options.registry_options(args)
    from ..airgap.options import PackOptions
    from ..airgap.pack import pack
    from .progress import shown

    started = time.monotonic()
    with shown(args) as progress:
        report = pack(
            references,
            args.to,
            PackOptions(
                since=args.since,
                inventory=args.inventory,
                volume_size=args.volume_size,
                **belongings(args),
                force=args.force,
                **options.transfer_options(args),
            ),
            registry=registry,
            progress=progress,
        )
    if args.json:
        result(report.to_json())
        return
    warn(report.warnings)
    if not args.quiet:
        packed = sum(each.action == "packed" for each in report.references)
        rest = len(report.references) - packed
        parts = [f"packed {number(packed, 'reference')}" + (f", {rest} unchanged" if rest else "")]
        parts.append(f"{report.blobs} blobs ({human_size(report.blob_bytes)})")
        if report.kept:
            parts.append(f"{human_size(report.kept)} were there")
        if report.left_out:
            parts.append(f"{report.left_out} left out ({human_size(report.left_out_bytes)})")
        if args.volume_size:
            parts.append(f"{len(report.volumes)} volumes")
        say(f"{'; '.join(parts)}; in {human_time(time.monotonic() - started)}")
    result(*(each.path for each in report.volumes))


def _unpack(args: argparse.Namespace, references: Sequence[str]) -> None:
    names = [
        "--since",
        "--volume-size",
        "--force",
        "--platform",
        "--no-referrers",
        "--no-digest-tags",
        "--no-companions",
    ]
    _refuse(args, names, "packing an archive")
    registry = options.registry_options(args)
    from ..airgap.options import UnpackOptions
    from ..airgap.unpack import unpack
    from .progress import shown

    started = time.monotonic()
    with shown(args) as progress:
        report = unpack(
            args.from_archive,
            args.to,
            UnpackOptions(strip=args.strip, full=args.full, inventory=args.inventory, **options.transfer_options(args)),
            references=references,
            registry=registry,
            progress=progress,
        )
    if args.json:
        result(report.to_json())
        return
    warn(report.warnings)
    if not args.quiet:
        moves = report.totals
        say(
            f"restored {number(len(report.references), 'reference')}: {number(moves.copied, 'blob')} copied "
            f"({human_size(moves.copied_bytes)}), {moves.mounted} mounted, {moves.present} there, "
            f"in {human_time(time.monotonic() - started)}"
        )
    result(*(each.pinned for each in report.references))
