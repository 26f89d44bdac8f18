# SPDX-License-Identifier: Apache-2.0
"""The entry point: which command, and what a failure looks like."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from . import completion, convert, inspect, login, pull, push, verify, version
from .options import Parser
from .output import note, result, say

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
COMMANDS = (push, pull, convert, inspect, verify, login, completion, version)


def build_parser() -> Parser:
    """The whole command line."""
    parser = Parser(
        prog="ocibridge",
        description="The lossless two-way bridge between model archives and OCI registries.",
        epilog="Example: ocibridge push digits.carton localhost:5000/models/digits:v1\n"
        "'ocibridge COMMAND --help' tells more about a command.",
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    parser.set_defaults(run=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in COMMANDS:
        command.add(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        The exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    args = argparse.Namespace(go_on=None)
    try:
        parser = build_parser()
        if arguments[:1] == [completion.PROTOCOL]:
            result(*completion.candidates(parser, arguments[1:]))
            return DONE
        parser.parse_args(arguments, args)
        if args.version:
            version.run(args)
        elif args.run is None:
            parser.print_help()
        else:
            args.run(args)
        return DONE
    except SystemExit as exc:  # argparse after --help, or a reader that went away
        return int(exc.code or DONE)
    except KeyboardInterrupt:
        return _fail("--json" in arguments, INTERRUPTED, "Interrupted", "interrupted", args.go_on)
    except Exception as exc:  # noqa: BLE001 - the last line of defence; nobody shall see a traceback
        return _failed(exc, "--json" in arguments)


def _failed(exc: Exception, as_json: bool) -> int:
    from .. import errors, settings

    if settings.debug():
        import traceback

        traceback.print_exception(exc)
    if isinstance(exc, errors.OcibridgeError):
        status = USAGE if isinstance(exc, errors.UsageError) else FAILED
        return _fail(as_json, status, type(exc).__name__, exc.message, exc.hint)
    reason = f": {exc}" if str(exc) else ""
    return _fail(
        as_json,
        FAILED,
        type(exc).__name__,
        f"this should not happen: {type(exc).__name__}{reason}",
        "please report it with the output of the same command under OCIBRIDGE_DEBUG=1",
    )


def _fail(as_json: bool, status: int, kind: str, message: str, hint: str | None) -> int:
    if as_json:
        note(json.dumps({"error": {"type": kind, "message": message, "hint": hint}}))
    else:
        say(f"error: {message}" + (f"; {hint}" if hint else ""))
    return status
