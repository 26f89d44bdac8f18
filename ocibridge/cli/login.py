# SPDX-License-Identifier: Apache-2.0
"""`ocibridge login` and `ocibridge logout`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..options import fields_of
from ..stores.registry.options import RegistryOptions
from . import options
from .output import printable
from .passwords import credentials
from .running import show

if TYPE_CHECKING:
    from ..operations.reports import LoginReport, LogoutReport


def add(commands: options.Commands[Any]) -> None:
    """Declare both commands."""
    parser = options.add_command(
        commands,
        "login",
        "Prove credentials to a registry and store them where docker and podman do.",
        (
            "ocibridge login ghcr.io --username octocat",
            "ocibridge login localhost:5000 --username me --password-stdin < password.txt",
        ),
        see="registries.md",
    )
    parser.set_defaults(run=run_login)
    parser.add_argument("host", metavar="HOST", help="HOST[:PORT]")
    options.add_flags(parser)

    parser = options.add_command(
        commands, "logout", "Forget the credentials for a registry.", "ocibridge logout ghcr.io", see="registries.md"
    )
    parser.set_defaults(run=run_logout)
    parser.add_argument("host", metavar="HOST", help="HOST[:PORT]")
    options.add_flags(parser, registry=False)
    parser.add_argument("--registry-config", type=Path, metavar="FILE", help="credential file to change")


def run_login(args: argparse.Namespace) -> None:
    """Log in."""
    from ..operations.login import check_host, login

    check_host(args.host, "login")
    found = options.given(args, fields_of(RegistryOptions))
    username, password = credentials(found.pop("username", None), args.password_stdin, required=True)
    assert username is not None
    assert password is not None
    report = login(args.host, username, password, registry=RegistryOptions(**found, per_host=options.per_host_of(args)))
    show(args, report, _nothing if args.quiet else _logged_in)


def _logged_in(report: LoginReport) -> list[str]:
    if report.proven:
        return [printable(f"logged in to {report.host} as {report.username}")]
    return [
        printable(f"no credentials were checked: {report.host} asks for none; those of {report.username} are stored")
    ]


def run_logout(args: argparse.Namespace) -> None:
    """Log out."""
    from ..operations.login import logout

    report = logout(args.host, registry=RegistryOptions(registry_config=args.registry_config))
    show(args, report, _nothing if args.quiet else _logged_out)


def _logged_out(report: LogoutReport) -> list[str]:
    return [printable(f"{'removed the' if report.removed else 'there were no'} credentials for {report.host}")]


def _nothing(_: object) -> list[str]:
    return []
