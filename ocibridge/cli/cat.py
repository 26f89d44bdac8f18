# SPDX-License-Identifier: Apache-2.0
"""`ocibridge cat`."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..operations.options import FileOptions
from . import options
from .output import result_bytes, warn

if TYPE_CHECKING:
    from ..operations.files import OpenFile

_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]")
"""Bytes that steer a terminal; text has none of them."""


def add(commands: options.Commands[Any]) -> None:
    """Declare the command."""
    parser = options.add_command(
        commands,
        "cat",
        "Print one file of a model, fetching nothing else.",
        (
            "ocibridge cat localhost:5000/models/digits:v1 carton.toml",
            "ocibridge cat localhost:5000/models/qwen:v1 tokenizer.json -o tokenizer.json",
        ),
        see="inspect.md",
    )
    parser.set_defaults(run=run)
    parser.add_argument(
        "subject", metavar="MODEL", help="a path, a reference, or a model of Ollama (ollama:NAME, ollama://…)"
    )
    parser.add_argument("path", metavar="PATH", help="the file, as 'inspect' shows it")
    parser.add_argument("-o", "--output", metavar="FILE", help="write it to FILE, which must not exist")
    options.add_flags(parser, FileOptions, json=False)


def run(args: argparse.Namespace) -> None:
    """Print the file.

    Raises:
        DestinationError: it is binary, and standard output is a terminal; or it cannot be written.
    """
    chosen = options.options_of(args, FileOptions)
    registry = options.registry_of(args)
    from ..operations.files import open_file

    with open_file(args.subject, args.path, chosen, registry=registry) as file:
        warn(file.warnings)
        if args.output in (None, "-"):
            _print(file)
        else:
            _write(file, Path(args.output))


def _print(file: OpenFile) -> None:
    from ..errors import DestinationError
    from ..io.readers import chunks

    terminal = sys.stdout is not None and sys.stdout.isatty()
    for piece in chunks(file):
        if terminal and _CONTROL.search(piece):
            raise DestinationError(
                f"{file.path} is binary, and may confuse the terminal", hint="write it to a file with -o FILE"
            )
        result_bytes(piece)


def _write(file: OpenFile, target: Path) -> None:
    from ..errors import DestinationError
    from ..io.atomic import AtomicFile

    if target.exists() or target.is_symlink():
        raise DestinationError(f"cannot write {target}: it exists", hint="name another file with -o FILE")
    with AtomicFile(target) as part:
        part.copy(file)
        part.publish(target)
