# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share; where the ORAS command line has one for the same thing, it has that name."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from .output import result
from .passwords import credentials
from .values import count, names

if TYPE_CHECKING:
    from ..stores.registry import RegistryOptions

Commands = argparse._SubParsersAction  # the only name that argparse has for it
PROGRESS = ("auto", "tty", "plain", "json", "none")


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are `UsageError`s: one sentence, like every other error."""

    def __init__(self, **kwargs: Any) -> None:
        shape = partial(argparse.RawDescriptionHelpFormatter, max_help_position=30)
        super().__init__(allow_abbrev=False, formatter_class=shape, **kwargs)

    def print_help(self, file: object = None) -> None:
        """Print the help text on standard output."""
        result(self.format_help().rstrip())

    def error(self, message: str) -> NoReturn:
        """Raise `message`."""
        from ..errors import UsageError

        raise UsageError(message, hint=f"see '{self.prog} --help'")


class _NoPassword(argparse.Action):
    def __call__(self, *_: Any) -> NoReturn:
        from ..errors import UsageError

        raise UsageError(
            "a password on the command line can be read by every user of this machine",
            hint="leave it out and type it when asked, or give it with --password-stdin",
        )


def add_command(commands: Commands[Any], name: str, summary: str, example: str, go_on: str | None = None) -> Parser:
    """A sub-parser.

    Args:
        commands: What `add_subparsers` returned.
        name: Name of the command.
        summary: One sentence; its first letter is lower-cased in the list of commands.
        example: One command line.
        go_on: How to continue after Ctrl-C.
    """
    parser: Parser = commands.add_parser(
        name, help=summary[0].lower() + summary[1:].rstrip("."), description=summary, epilog=f"Example: {example}"
    )
    parser.set_defaults(go_on=go_on or "run the same command again")
    return parser


def add_dialect(parser: Parser, *, default: str | None = None) -> None:
    """`--dialect`."""
    parser.add_argument(
        "--dialect",
        choices=("cnai", "draft", "modelpack"),
        default=default,
        help="vocabulary of the manifest: cnai (the model specification's first names), draft (OCI layers that a "
        "container runtime mounts) or modelpack (its current names)" + (f"; default: {default}" if default else ""),
    )


def add_box(parser: Parser) -> None:
    """What is written at a path: `--as`, `--zip-method`, `--force`, and what a box needs that the model was not in."""
    parser.add_argument(
        "--as",
        dest="as_format",
        choices=("carton", "mlarchive", "folder"),
        help="what to write, whatever the name of the target says",
    )
    parser.add_argument(
        "--zip-method",
        choices=("stored", "deflate", "zstd"),
        default="stored",
        help="how the members of a carton are compressed (default: stored)",
    )
    parser.add_argument("--force", action="store_true", help="replace the target if it exists")
    group = parser.add_argument_group("making a box of a model that was in another")
    group.add_argument("--runner-name", metavar="NAME", help="runner of a new carton, such as torchscript")
    group.add_argument("--framework-version", metavar="REQ", help="framework versions it needs, such as =1.12.1")
    group.add_argument(
        "--runner-compat-version", type=count, default=1, metavar="N", help="version of its model folder (default: 1)"
    )
    group.add_argument("--hooks", metavar="FOLDER", help="folder with the hooks (*.py) of a new MLSteam archive")


def box_options(args: argparse.Namespace) -> dict[str, Any]:
    """The arguments of `pull` and `convert` that `add_box` declares."""
    named = ("zip_method", "runner_name", "framework_version", "runner_compat_version", "hooks")
    writing = {name: getattr(args, name) for name in named}
    return {"as_format": args.as_format, "force": args.force, "writing": writing}


def add_platform(parser: Parser) -> None:
    """`--platform`."""
    parser.add_argument(
        "--platform",
        type=names,
        action="extend",
        metavar="OS/ARCH,…",
        help="platforms of the image, with commas between them (default: linux/amd64,linux/arm64)",
    )


def add_max_layers(parser: Parser) -> None:
    """`--max-layers`."""
    parser.add_argument(
        "--max-layers",
        type=count,
        metavar="N",
        help="tar layers that there may be; beyond them neighbouring weights share one (default: 120)",
    )


def image_options(args: argparse.Namespace) -> dict[str, Any]:
    """`platforms` and `max_layers`, where they were given."""
    given = {"platforms": args.platform, "max_layers": args.max_layers}
    return {name: value for name, value in given.items() if value is not None}


def add_json(parser: Parser) -> None:
    """`--json`."""
    parser.add_argument("--json", action="store_true", help="print one JSON object, and errors as JSON, too")


def add_links(parser: Parser) -> None:
    """`--fetch-links` and `--links-host`."""
    group = parser.add_argument_group("files that the source only links to")
    group.add_argument("--fetch-links", action="store_true", help="fetch them (without it, they are an error)")
    group.add_argument(
        "--links-host",
        action="append",
        default=[],
        metavar="HOST",
        help="fetch them from this host only (may be given several times)",
    )


def add_registry(parser: Parser) -> None:
    """How a registry is reached, with the names of the ORAS command line."""
    group = parser.add_argument_group("registry")
    group.add_argument(
        "--plain-http",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="use HTTP, or never use it (default: HTTP for loopback hosts only)",
    )
    group.add_argument("--insecure", action="store_true", help="do not verify the TLS certificate")
    for name, what in (
        ("--ca-file", "certificate authorities to trust (PEM)"),
        ("--cert-file", "client certificate (PEM)"),
        ("--key-file", "key of the client certificate (PEM)"),
        ("--registry-config", "credential file, instead of those of docker and podman"),
    ):
        group.add_argument(name, type=Path, metavar="FILE", help=what)
    group.add_argument("-u", "--username", metavar="USER", help="user name, instead of stored credentials")
    group.add_argument("--password-stdin", action="store_true", help="read the password from standard input")
    group.add_argument("-p", "--password", action=_NoPassword, nargs="?", help=argparse.SUPPRESS)


def add_transfer(parser: Parser) -> None:
    """`--concurrency`, `--progress` and `--quiet`."""
    group = parser.add_argument_group("transfer")
    group.add_argument("--concurrency", type=count, metavar="N", help="layers that move at the same time (default: 4)")
    _add_progress(group)


def add_progress(parser: Parser) -> None:
    """`--progress` and `--quiet`."""
    _add_progress(parser.add_argument_group("progress"))


def _add_progress(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--progress",
        choices=PROGRESS,
        default="auto",
        help="on standard error: bars (tty), a line every few seconds (plain), JSON lines (json), or none",
    )
    group.add_argument("-q", "--quiet", action="store_true", help="no progress, no summary")


def add_cache(parser: Parser) -> None:
    """`--no-cache`."""
    parser.add_argument(
        "--no-cache",
        dest="cache",
        action="store_false",
        help="read every file: neither use nor keep digests of unchanged files, nor notes on unfinished uploads",
    )


def registry_options(args: argparse.Namespace) -> RegistryOptions | None:
    """What the registry flags say; None where there are none, so that nothing is imported for a local path.

    Raises:
        UsageError: a password without a user, or a user without a password.
    """
    username, password = credentials(args)
    given = {
        name: getattr(args, name)
        for name in ("plain_http", "insecure", "ca_file", "cert_file", "key_file", "registry_config")
        if getattr(args, name) not in (None, False) or (name == "plain_http" and args.plain_http is False)
    }
    if not given and username is None:
        return None
    from ..stores.registry import RegistryOptions

    return RegistryOptions(**given, username=username, password=password)


def transfer_options(args: argparse.Namespace) -> dict[str, Any]:
    """`concurrency`, where it was given."""
    return {} if args.concurrency is None else {"concurrency": args.concurrency}


def links_options(args: argparse.Namespace) -> dict[str, Any]:
    """`fetch_links` and `links_hosts`.

    Raises:
        UsageError: hosts without `--fetch-links`.
    """
    if args.links_host and not args.fetch_links:
        from ..errors import UsageError

        raise UsageError("--links-host says where --fetch-links may fetch from", hint="add --fetch-links")
    return {"fetch_links": args.fetch_links, "links_hosts": args.links_host}
