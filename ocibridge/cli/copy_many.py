# SPDX-License-Identifier: Apache-2.0
"""`ocibridge copy` of many references: into one archive for the other side of an air gap, and out of it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..airgap.options import GROUP, PackOptions, UnpackOptions
from ..errors import UsageError, human_size, number
from ..operations.options import CopyOptions
from ..options import fields_of
from ..stores.registry.options import RegistryOptions
from . import options
from .running import perform

if TYPE_CHECKING:
    from ..airgap.reports import PackReport, UnpackedReference, UnpackReport

KINDS = (PackOptions, UnpackOptions)


def add(parser: options.Parser) -> None:
    """Declare the arguments that are no options of an operation."""
    group = parser.add_argument_group(
        GROUP, "REFERENCE… --to oci-archive:FILE packs, --from oci-archive:FILE --to HOST/PREFIX restores"
    )
    group.add_argument("--to", metavar="PLACE", help="oci-archive:FILE to pack; HOST[/PREFIX] or oci:DIR to restore")
    group.add_argument(
        "--from", dest="from_archive", metavar="ARCHIVE", help="the archive to restore: oci-archive:FILE"
    )


def asked(args: argparse.Namespace) -> bool:
    """Return whether the command line asks for this kind of copy."""
    return bool(args.to or args.from_archive)


def refuse(args: argparse.Namespace) -> None:
    """Refuse the options of this kind of copy.

    Raises:
        UsageError: one is given.
    """
    others = {each.name for each in fields_of(CopyOptions)}
    own = [each for kind in KINDS for each in fields_of(kind) if each.name not in others]
    for name in options.given(args, own):
        flag = next(each.flags[0] for each in own if each.name == name)
        raise UsageError(
            f"{flag} is for copies into and out of an archive",
            hint="leave it out, as a copy from SOURCE to TARGET moves the tag and removes nothing; or add "
            "--to oci-archive:FILE to pack",
        )


def run(args: argparse.Namespace, references: Sequence[str]) -> None:
    """Pack or restore.

    Args:
        args: What `add` declares, and the other options of `ocibridge copy`.
        references: The positional arguments.
    """
    if not args.to:
        raise UsageError(
            "where the copies go is missing",
            hint="give --to oci-archive:FILE to pack, or --from oci-archive:FILE --to HOST/PREFIX to restore",
        )
    source = options.given(args, fields_of(RegistryOptions), "from")
    if source or args.from_password_stdin:
        name = next(iter(source), "password_stdin").replace("_", "-")
        raise UsageError(f"--from-{name} is for a copy from SOURCE to TARGET", hint="leave it out")
    if "dry_run" in args:
        raise UsageError("--dry-run is for a copy from SOURCE to TARGET", hint="leave it out")
    if args.from_archive is None:
        _pack(args, references)
    else:
        _unpack(args, references)


def _pack(args: argparse.Namespace, references: Sequence[str]) -> None:
    options.refuse(args, UnpackOptions, PackOptions, "restoring an archive")
    if not args.to.startswith("oci-archive:"):
        raise UsageError(
            f"many references go into one archive, and {args.to} is none",
            hint="write --to oci-archive:FILE; for registries, write a job for 'ocibridge mirror'",
        )
    chosen = options.options_of(args, PackOptions)
    registry = options.registry_of(args)
    from ..airgap.pack import pack

    perform(
        args,
        lambda progress: pack(references, args.to, chosen, registry=registry, progress=progress),
        lambda report: [each.path for each in report.volumes],
        lambda report: _packed(report, split=chosen.volume_size is not None),
    )


def _packed(report: PackReport, *, split: bool) -> str:
    packed = sum(each.action == "packed" for each in report.references)
    rest = len(report.references) - packed
    parts = [f"packed {number(packed, 'reference')}" + (f", {rest} unchanged" if rest else "")]
    parts.append(f"{number(report.totals.copied, 'blob')} ({human_size(report.totals.copied_bytes)})")
    if report.kept:
        parts.append(f"{human_size(report.kept)} were there")
    if report.totals.present:
        parts.append(f"{report.totals.present} left out ({human_size(report.totals.present_bytes)})")
    if split:
        parts.append(f"{len(report.volumes)} volumes")
    return "; ".join(parts)


def _unpack(args: argparse.Namespace, references: Sequence[str]) -> None:
    options.refuse(args, PackOptions, UnpackOptions, "packing an archive")
    chosen = options.options_of(args, UnpackOptions)
    registry = options.registry_of(args)
    from ..airgap.unpack import unpack

    perform(
        args,
        lambda progress: unpack(
            args.from_archive, args.to, chosen, references=references, registry=registry, progress=progress
        ),
        lambda report: [_restored_name(each) for each in report.references],
        _restored,
    )


def _restored_name(each: UnpackedReference) -> str:
    return each.target if "@" in each.target else f"{each.target}@{each.digest}"


def _restored(report: UnpackReport) -> str:
    moves = report.totals
    return (
        f"restored {number(len(report.references), 'reference')}: {number(moves.copied, 'blob')} copied "
        f"({human_size(moves.copied_bytes)}), {moves.mounted} mounted, {moves.present} there"
    )
