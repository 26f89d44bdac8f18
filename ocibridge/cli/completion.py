# SPDX-License-Identifier: Apache-2.0
"""`ocibridge completion`, and the answers that its scripts ask for; both are the work of argcomplete."""

from __future__ import annotations

import argparse
import os
from typing import Any

from . import options
from .output import result

_SHELLS = ("bash", "zsh", "fish")


def add(commands: options.Commands[Any]) -> None:
    """Declare the command."""
    parser = options.add_command(
        commands, "completion", "Print a shell completion script.", "source <(ocibridge completion bash)"
    )
    parser.set_defaults(run=run)
    parser.add_argument("shell", metavar="SHELL", choices=_SHELLS, help="bash, zsh or fish")


def run(args: argparse.Namespace) -> None:
    """Print the script."""
    from argcomplete.shell_integration import shellcode

    result(shellcode(["ocibridge"], shell=args.shell).strip())


def is_asked() -> bool:
    """Whether a completion script has started this process to learn what may stand at the cursor."""
    return "_ARGCOMPLETE" in os.environ


def answer(parser: argparse.ArgumentParser) -> None:
    """Tell the script what may stand at the cursor, and end the process."""
    import argcomplete

    argcomplete.autocomplete(parser, always_complete_options=False)
