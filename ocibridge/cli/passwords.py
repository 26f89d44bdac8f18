# SPDX-License-Identifier: Apache-2.0
"""User names and passwords: from options, from standard input, or asked for."""

from __future__ import annotations

import argparse
import sys

_MAX_SECRET = 1 << 20


def credentials(args: argparse.Namespace, *, required: bool = False) -> tuple[str | None, str | None]:
    """User name and password, asked for where they are missing and somebody is there to answer.

    Args:
        args: Parsed arguments.
        required: Whether the user name is asked for, too.

    Raises:
        UsageError: they are missing, and nobody is there.
    """
    from ..errors import UsageError

    username: str | None = args.username
    if username is None and args.password_stdin:
        raise UsageError("--password-stdin needs --username", hint="add --username USER")
    if username is None and not required:
        return None, None
    asked = sys.stdin is not None and sys.stdin.isatty()
    if not args.password_stdin and not asked:
        raise UsageError("there is no terminal to ask for the password on", hint="give it with --password-stdin")
    if username is None:
        sys.stderr.write("User name: ")
        sys.stderr.flush()
        username = sys.stdin.readline().strip()
    if not username:
        raise UsageError("the user name is empty", hint="give it with --username")
    password = _read_password() if args.password_stdin else _ask_password()
    if not password:
        raise UsageError("the password is empty", hint="type it when asked, or give it with --password-stdin")
    return username, password


def _ask_password() -> str:
    import getpass

    try:
        return getpass.getpass("Password: ")
    except EOFError:
        return ""


def _read_password() -> str:
    from ..errors import UsageError

    data = sys.stdin.buffer.read(_MAX_SECRET + 1) if sys.stdin is not None else b""
    if len(data) > _MAX_SECRET:
        raise UsageError("the password on standard input is too long", hint="check what is piped into the command")
    try:
        return data.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise UsageError("the password on standard input is not UTF-8", hint="check what is piped in") from None
