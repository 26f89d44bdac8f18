# SPDX-License-Identifier: Apache-2.0
"""User names and passwords: from options, from standard input, or asked for."""

from __future__ import annotations

import sys

_MAX_SECRET = 1 << 20


def credentials(
    username: str | None, stdin: bool, start: str = "--", *, required: bool = False
) -> tuple[str | None, str | None]:
    """User name and password, asked for if they are missing and there is a terminal.

    Args:
        username: User name, where it is given.
        stdin: Whether the password is read from standard input.
        start: What the flags begin with.
        required: Whether the user name is asked for, too.

    Raises:
        UsageError: they are missing, and nobody is there.
    """
    from ..errors import UsageError

    if username is None and stdin:
        raise UsageError(f"{start}password-stdin needs {start}username", hint=f"add {start}username USER")
    if username is None and not required:
        return None, None
    asked = sys.stdin is not None and sys.stdin.isatty()
    if not stdin and not asked:
        raise UsageError("there is no terminal to ask for the password on", hint="give it with --password-stdin")
    if username is None:
        sys.stderr.write("User name: ")
        sys.stderr.flush()
        username = sys.stdin.readline().strip()
    if not username:
        raise UsageError("the user name is empty", hint="give it with --username")
    password = _read_password() if stdin else _ask_password()
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
