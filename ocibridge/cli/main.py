# SPDX-License-Identifier: Apache-2.0
"""The entry point: which command, and what a failure looks like."""

from __future__ import annotations

import argparse
import atexit
import errno
import gc
import json
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import pairwise
from typing import Any, TextIO

from .. import settings
from ..about import __version__, heading
from . import completion
from .output import note, result, say, say_as_events, warn
from .parser import OUTPUT, Parser

_AGAIN = 0.5
"""Seconds in which a second signal means the first: `timeout` sends one to the process and one to its group."""
_YOUNG = 200_000
"""Objects that are made before the garbage collector looks at them; Python's own choice is 700, or 2000."""
_SHOW_CURSOR = b"\x1b[?25h"
"""Bars hide it (ECMA-48, DECTCEM)."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
DONE, FAILED, USAGE, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143
GROUPS = {
    "move models": ("push", "pull", "copy", "convert", "mirror"),
    "look at models": ("inspect", "cat", "diff", "verify"),
    "mount models in Kubernetes": ("volume",),
    "registries": ("tags", "ls", "tag", "rm", "login"),
    "set up": ("config", "completion", "version"),
}
"""Modules of this package that declare a command, or two (`login` and `logout`), by title in the help text."""
COMMANDS = tuple(name for names in GROUPS.values() for name in names)

_UNCONFIGURED = ("config", "completion", "version")
"""Commands that read no configuration file, so that they work where one is wrong."""


def build_parser(word: str = "") -> Parser:
    """The command line: only the command that `word` names, where it names one, as to declare all takes a while."""
    parser = Parser(
        prog="ocibridge",
        description="The lossless two-way bridge between model archives and OCI registries.",
        epilog="""examples:
  ocibridge push ./Qwen2.5-0.5B registry.example.com/models/qwen:v1
  ocibridge inspect registry.example.com/models/qwen:v1
  ocibridge pull registry.example.com/models/qwen:v1 ./qwen

'ocibridge COMMAND --help' tells more about a command.""",
    )
    parser.group(OUTPUT).add_argument("--version", action="store_true", dest="wants_version", help="print the version")
    parser.set_defaults(run=None, parser=parser)
    commands = parser.add_subparsers(metavar="COMMAND")
    called = "login" if word == "logout" else word
    for title, modules in GROUPS.items():
        before = len(commands._choices_actions)
        for module in [called] if called in modules else [] if called in COMMANDS else modules:
            import_module(f".{module}", __package__).add(commands)
        parser.sections.append((title, commands._choices_actions[before:]))
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        The exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted (Ctrl-C), 143 terminated (SIGTERM). A second
        signal ends the process at once.
    """
    _reduce_startup()
    arguments = list(sys.argv[1:] if argv is None else argv)
    args = argparse.Namespace(go_on=None, parallel=None, verbose=False, debug=False)
    before = _on_signals(dict.fromkeys(_SIGNALS, _interrupting()))
    try:
        if completion.is_requested():
            completion.complete(build_parser())
        word = arguments[0] if arguments else ""
        parser = build_parser(word.removeprefix("--") if word == "--version" else word)
        aliases = _configure(parser, arguments)
        _, extra = parser.parse_known_args(arguments, args)
        if extra:
            args.parser.refuse(extra)
        say_as_events(getattr(args, "progress", None) == "json")
        if args.wants_version:
            result(f"ocibridge {__version__}")
        elif args.run is None:
            parser.print_help()
        else:
            _run(args, aliases)
        return DONE
    except SystemExit as exc:  # argparse after --help, or a reader that went away
        return int(exc.code or DONE)
    except KeyboardInterrupt as exc:
        status = TERMINATED if isinstance(exc, _Terminated) else INTERRUPTED
        return _fail(_wants_json(arguments), status, "Interrupted", "interrupted", args.go_on)
    except Exception as exc:  # noqa: BLE001 - the last line of defence; nobody shall see a traceback
        return _failed(exc, _wants_json(arguments), args, settings.debug() or "--debug" in arguments)
    finally:
        say_as_events(False)
        _on_signals(before)


def _wants_json(arguments: Sequence[str]) -> bool:
    """Return whether standard error is JSON: the arguments themselves may be what is wrong."""
    return any(each in ("--json", "--progress=json") for each in arguments) or (
        ("--progress", "json") in pairwise(arguments)
    )


def _configure(parser: Parser, arguments: Sequence[str]) -> dict[str, str]:
    """Take the defaults of the command from the configuration files, and return the aliases."""
    asked = bool({"-h", "--help", "--version"} & set(arguments))
    paths = [] if asked or not arguments or arguments[0] in _UNCONFIGURED else settings.config_paths()
    if not paths:
        return {}
    from . import configfile

    files = [configfile.ConfigFile.read(*each) for each in paths]
    configfile.check_tables(files, [*COMMANDS, "logout"])
    command = configfile.called(parser, arguments)
    command.set_defaults(**configfile.defaults(files, command, lambda: configfile.flags_of(build_parser())))
    command.set_defaults(per_host=configfile.registries(files))
    return configfile.aliases(files)


def _run(args: argparse.Namespace, aliases: dict[str, str]) -> None:
    """Run the command, and say what is logged meanwhile where that is asked for."""
    verbose = args.verbose or args.debug or settings.debug()
    if aliases:
        from .configfile import expand

        for word, reference in expand(args, aliases):
            if verbose:
                say(f"{word} is {reference}, by an alias")
    if not verbose:
        args.run(args)
        return
    import logging

    from .notes import noting

    with noting(logging.DEBUG):
        args.run(args)


def _reduce_startup() -> None:
    """Keep Python and the libraries from what takes long and is of no use here."""
    # To look for plugins, pydantic reads the metadata of every package that is installed; none belongs in here.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # Importing makes very many objects and no garbage, as does a model of many files: the collector looks in vain.
    gc.set_threshold(_YOUNG, *gc.get_threshold()[1:])
    # What there is at the end goes with the process: to look through it once more takes as long as a small pull.
    atexit.register(gc.freeze)
    warnings.showwarning = _show_warning


_usual = warnings.showwarning


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Say what is wrong with a plugin in one sentence, as every warning of a command."""
    from ..plugins import PluginWarning

    if issubclass(category, PluginWarning):
        warn([str(message)])
    else:
        _usual(message, category, filename, lineno, file, line)


class _Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a command as Ctrl-C does."""


def _interrupting() -> Callable[[int, object], None]:
    """A handler of signals: the first one is an exception, so that the command ends in order; the next ends it."""
    first: list[float] = []

    def handle(number: int, _: object) -> None:
        if not first:
            first.append(time.monotonic())
            raise _Terminated if number == signal.SIGTERM else KeyboardInterrupt
        if time.monotonic() - first[0] >= _AGAIN:
            with suppress(OSError):
                if os.isatty(2):
                    os.write(2, _SHOW_CURSOR)
            os._exit(TERMINATED if number == signal.SIGTERM else INTERRUPTED)

    return handle


def _on_signals(handlers: Mapping[signal.Signals, Any]) -> dict[signal.Signals, Any]:
    """Set the handlers of signals, and return the earlier ones; an ignored signal stays ignored."""
    found = {}
    for number, handler in handlers.items():
        before = signal.getsignal(number)
        if handler is not None and before is not signal.SIG_IGN:
            with suppress(ValueError):  # outside of the main thread nobody can
                signal.signal(number, handler)
                found[number] = before
    return found


def _failed(exc: Exception, as_json: bool, args: argparse.Namespace, debug: bool) -> int:
    from .. import errors

    if debug:
        import traceback

        traceback.print_exception(exc)
    if isinstance(exc, errors.OcibridgeError):
        status = USAGE if isinstance(exc, errors.UsageError) else FAILED
        return _fail(as_json, status, type(exc).__name__, exc.message, exc.hint)
    if _out_of_memory(exc):
        fewer = f"{args.parallel} 1, or " if args.parallel else ""
        hint = f"try {fewer}a higher limit of memory (of the container or job, or 'ulimit -v')"
        return _fail(as_json, FAILED, "MemoryError", "there is not enough memory", hint)
    reason = f": {exc}" if str(exc) else ""
    return _fail(
        as_json,
        FAILED,
        type(exc).__name__,
        f"this should not happen: {type(exc).__name__}{reason}",
        "please report it with the output of the same command with --debug",
    )


def _out_of_memory(exc: Exception) -> bool:
    """Return whether memory was refused: for an object, for the stack of a thread, or for the code of a module."""
    refused = isinstance(exc, OSError) and exc.errno == errno.ENOMEM
    thread = isinstance(exc, RuntimeError) and "start new thread" in str(exc)
    module = isinstance(exc, ImportError) and "failed to map segment" in str(exc)
    return isinstance(exc, MemoryError) or refused or thread or module


def _fail(as_json: bool, status: int, kind: str, message: str, hint: str | None) -> int:
    if as_json:
        note(json.dumps(heading("error") | {"error": {"type": kind, "message": message, "hint": hint}}))
    else:
        say(f"error: {message}" + (f"; {hint}" if hint else ""))
    return status
