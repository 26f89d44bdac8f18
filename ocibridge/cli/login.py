# SPDX-License-Identifier: Apache-2.0
"""`ocibridge login` and `ocibridge logout`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from ..options import fields_of
from ..stores.registry.options import RegistryOptions
from . import options
from .output import printable, result
from .passwords import credentials


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
    proven = login(args.host, username, password, registry=RegistryOptions(**found))
    if args.json:
        result(json.dumps({"host": args.host, "username": username, "proven": proven}))
    elif args.quiet:
        return
    elif proven:
        result(printable(f"logged in to {args.host} as {username}"))
    else:
        result(printable(f"stored the login of {username}; {args.host} requires no login, so it could not be checked"))


def run_logout(args: argparse.Namespace) -> None:
    """Log out."""
    from ..operations.login import logout

    removed = logout(args.host, registry=RegistryOptions(registry_config=args.registry_config))
    if args.json:
        result(json.dumps({"host": args.host, "removed": removed}))
    elif not args.quiet:
        result(printable(f"{'removed the' if removed else 'there were no'} credentials for {args.host}"))
