# SPDX-License-Identifier: Apache-2.0
"""`ocibridge copy`."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import copy_many, options
from .output import human_size, human_time, result, say, warn
from .passwords import credentials
from .values import names

if TYPE_CHECKING:
    from ..operations.reports import CopyReport
    from ..stores.registry import RegistryOptions

_NAMES = (
    "HOST[:PORT]/REPOSITORY[:TAG|@DIGEST] (or oci://HOST…, docker://HOST…), oci:DIR[:TAG] or oci-archive:FILE[:TAG]"
)


def add(commands: options.Commands[Any]) -> None:
    """Declare the command."""
    parser = options.add_command(
        commands,
        "copy",
        "Copy a model from store to store, with its signatures and companions.",
        "ocibridge copy localhost:5000/models/digits:v1 registry.example/mirror/digits",
        "run the same command again; blobs that arrived whole are not sent again",
    )
    parser.set_defaults(run=run)
    parser.add_argument(
        "references",
        nargs="*",
        metavar="REFERENCE",
        help=f"SOURCE and TARGET, each {_NAMES}; a target without tag gets that of the source (with --to: sources)",
    )
    parser.add_argument(
        "--platform",
        type=names,
        action="extend",
        metavar="OS/ARCH,…",
        help="of an index, copy these platforms only, with commas between them; the index keeps its bytes",
    )
    parser.add_argument(
        "--no-referrers", action="store_true", help="leave out signatures, SBOMs and the like that refer to it"
    )
    parser.add_argument("--no-digest-tags", action="store_true", help="leave out tags such as sha256-….sig")
    parser.add_argument("--no-companions", action="store_true", help="leave out TAG-image and TAG-ollama beside it")
    parser.add_argument(
        "--full",
        action="store_true",
        help="look for every blob, even below what the target has, and repair what is broken",
    )
    copy_many.add(parser)
    options.add_json(parser)
    options.add_transfer(parser)
    options.add_registry(parser)
    _add_source(parser)


def run(args: argparse.Namespace) -> None:
    """Copy, and print the pinned reference of the copy."""
    if copy_many.asked(args):
        copy_many.run(args, args.references)
        return
    from ..errors import UsageError

    if len(args.references) != 2:
        raise UsageError(
            "a copy needs a source and a target", hint="write 'ocibridge copy SOURCE TARGET', or see --to for many"
        )
    source_registry = _source_options(args)
    registry = options.registry_options(args)
    from ..operations.copy import copy
    from ..operations.options import CopyOptions
    from .progress import shown

    started = time.monotonic()
    with shown(args) as progress:
        report = copy(
            args.references[0],
            args.references[1],
            CopyOptions(full=args.full, **copy_many.belongings(args), **options.transfer_options(args)),
            registry=registry,
            source_registry=source_registry,
            progress=progress,
        )
    if args.json:
        result(report.to_json())
        return
    warn(report.warnings)
    if not args.quiet:
        say(f"copied {report.source}: {summary(report)}, in {human_time(time.monotonic() - started)}")
    result(report.reference)


def summary(report: CopyReport) -> str:
    """What moved, and what did not have to."""
    counts = (
        (report.copied, "copied", report.copied_bytes),
        (report.mounted, "mounted", report.mounted_bytes),
        (report.present, "present", report.present_bytes),
    )
    blobs = ", ".join(f"{number} {word} ({human_size(size)})" for number, word, size in counts if number) or "none"
    referrers = f", {report.referrers} referrers" if report.referrers else ""
    also = "".join(f", also {each.tag}" for each in report.companions)
    return f"blobs {blobs}{referrers}{also}"


def _add_source(parser: options.Parser) -> None:
    group = parser.add_argument_group(
        "registry of the source", "where it is another than that of the target, or needs other options"
    )
    group.add_argument(
        "--from-plain-http", action=argparse.BooleanOptionalAction, default=None, help="use HTTP, or never use it"
    )
    group.add_argument("--from-insecure", action="store_true", help="do not verify the TLS certificate")
    group.add_argument("--from-ca-file", type=Path, metavar="FILE", help="certificate authorities to trust (PEM)")
    group.add_argument("--from-username", metavar="USER", help="user name, instead of stored credentials")
    group.add_argument("--from-password-stdin", action="store_true", help="read the password from standard input")


def _source_options(args: argparse.Namespace) -> RegistryOptions | None:
    """What the flags for the source say; None where there are none.

    Raises:
        UsageError: both passwords shall come from standard input, or one is missing.
    """
    from ..errors import UsageError

    if args.from_password_stdin and args.from_username is None:
        raise UsageError("--from-password-stdin needs --from-username", hint="add --from-username USER")
    if args.from_password_stdin and args.password_stdin:
        raise UsageError(
            "standard input has one password, and two are to be read from it",
            hint="log in to one of the two registries first, with 'ocibridge login'",
        )
    username, password = credentials(
        argparse.Namespace(username=args.from_username, password_stdin=args.from_password_stdin)
    )
    given: dict[str, Any] = {}
    if args.from_plain_http is not None:
        given["plain_http"] = args.from_plain_http
    if args.from_insecure:
        given["insecure"] = True
    if args.from_ca_file is not None:
        given["ca_file"] = args.from_ca_file
    if not given and username is None:
        return None
    from ..stores.registry import RegistryOptions

    return RegistryOptions(**given, registry_config=args.registry_config, username=username, password=password)
