# SPDX-License-Identifier: Apache-2.0
"""`ocibridge completion`, and the completions that its scripts request; argcomplete makes both."""

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
    options.add_flags(parser, json=False, registry=False)


def run(args: argparse.Namespace) -> None:
    """Print the script."""
    from argcomplete.shell_integration import shellcode

    result(shellcode(["ocibridge"], shell=args.shell).strip())


def is_requested() -> bool:
    """Return whether a completion script has started this process (`_ARGCOMPLETE` of argcomplete)."""
    return "_ARGCOMPLETE" in os.environ


def complete(parser: argparse.ArgumentParser) -> None:
    """Print the completions for the word at the cursor to the script, and end the process."""
    import argcomplete

    argcomplete.autocomplete(parser, always_complete_options=False)
