# SPDX-License-Identifier: Apache-2.0
"""Flags from types of options (see `ocibridge.options`), and the few that belong to the command line alone.

Where the ORAS command line has a flag for the same thing, it has that name.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NoReturn, TypeVar

from ..errors import UsageError
from ..formats.registry import formats
from ..operations.options import SourceOptions, TargetOptions, TransferOptions
from ..options import Option, Options, fields_of, readable_file
from ..stores.registry.options import RegistryOptions
from .parser import OUTPUT, REGISTRY, SOURCE_REGISTRY
from .parser import Commands as Commands
from .parser import Parser as Parser
from .parser import add_command as add_command
from .parser import add_commands as add_commands
from .passwords import credentials

T = TypeVar("T", bound=Options)

TARGET = "HOST[:PORT]/REPOSITORY[:TAG] (or oci://HOST…, docker://HOST…), oci:DIR[:TAG] or oci-archive:FILE[:TAG]"
"""How a place in a store is written."""
STORED = TARGET.replace("[:TAG]", "[:TAG|@DIGEST]", 1)
"""How what is in a store is written."""
MORE = "more options"
PROGRESS = ("auto", "tty", "plain", "json", "none")


class _NoPassword(argparse.Action):
    def __call__(self, *_: Any) -> NoReturn:
        raise UsageError(
            "a password on the command line can be read by every user of this machine",
            hint="leave it out and type it when asked, or give it with --password-stdin",
        )


def add_flags(
    parser: Parser,
    *kinds: type[Options],
    first: Sequence[str] = (),
    json: bool = True,
    progress: bool = False,
    registry: bool = True,
) -> None:
    """The flags of a command; all have `--quiet`, `--verbose` and `--debug`.

    Args:
        parser: Of the command.
        kinds: Types of its options. A flag that several have is declared once. With `SourceOptions` and `TargetOptions`
            come the options of all formats, with `TransferOptions` the progress.
        first: Names of the options that matter most. The others stand below them, as more options; if there are none,
            all stand together.
        json: Whether it has `--json`.
        progress: Whether it has `--progress`, even if nothing is transferred.
        registry: Whether it has the options of registries.
    """
    options = {each.flags: each for kind in kinds for each in fields_of(kind)}
    # The flag that lowers the memory of a command, for the hint of a MemoryError.
    parallel = next((flags[0] for flags in options if flags[0] in ("--concurrency", "--workers")), None)
    parser.set_defaults(parallel=parallel)
    formatted = list(_of_formats(kinds))
    rest = [each for each in options.values() if each.group is not None]
    own = [each for each in options.values() if each.group is None]
    _declare(parser, [each for name in first for each in own if each.name == name] if first else own)
    _declare(parser, [replace(each, group=MORE) for each in own if first and each.name not in first])
    _declare(parser, [*formatted, *rest])
    if progress or any(issubclass(kind, TransferOptions) for kind in kinds):
        _add_progress(parser)
    _add_output(parser, json)
    if registry:
        add_registry(parser)
        group = parser.group(REGISTRY)
        group.add_argument("--password-stdin", action="store_true", help="read the password from standard input")
        group.add_argument("-p", "--password", action=_NoPassword, nargs="?", help=argparse.SUPPRESS)


def add_registry(parser: Parser) -> None:
    """Add the options of registries."""
    _declare(parser, fields_of(RegistryOptions))


def _of_formats(kinds: Iterable[type[Options]]) -> Iterator[Option]:
    """The options of all formats, in groups by format; those that several have are one, with the choices of all."""
    found: dict[tuple[str, ...], list[tuple[str, Option]]] = {}
    for each in formats():
        for base, kind in ((SourceOptions, each.read_options), (TargetOptions, each.write_options)):
            if any(issubclass(known, base) for known in kinds):
                for option in fields_of(kind):
                    found.setdefault(option.flags, []).append((each.label, option))
    for same in found.values():
        option = same[0][1]
        choices = tuple(dict.fromkeys(word for _, each in same for word in each.choices or ()))
        group = option.group or f"options for {' and '.join(label for label, _ in same)}"
        yield replace(option, allowed=choices or None, group=group)


def _declare(parser: Parser, options: Iterable[Option], prefix: str = "") -> None:
    for each in options:
        target = parser if each.group is None else parser.group(each.group)
        target.add_argument(*_names(each, prefix), **_argument(each, prefix))


def _names(option: Option, prefix: str) -> list[str]:
    if prefix:
        return [f"--{prefix}-{name[2:]}" for name in option.flags]
    return [*([option.short] if option.short else []), *option.flags]


def _argument(option: Option, prefix: str) -> dict[str, Any]:
    """The arguments of `add_argument`. What is not given is left to the type of the options."""
    default = getattr(option.default, "value", option.default)
    help = option.help.replace("%(default)s", str(default)).replace("%", "%%")
    dest = f"{prefix}_{option.name}" if prefix else option.name
    common = {"dest": dest, "help": help, "default": argparse.SUPPRESS}
    if option.negative:
        return {**common, "action": argparse.BooleanOptionalAction, "default": None}
    if isinstance(option.default, bool):
        return {**common, "action": "store_false" if option.default else "store_true"}
    if option.choices is None:
        common["metavar"] = option.metavar or option.name.upper()
    return {
        **common,
        "choices": option.choices,
        "type": _parser_of(option.parse) if option.parse else str,
        "action": "append" if option.repeat else "store",
    }


def _parser_of(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    def parsed(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as exc:
            raise argparse.ArgumentTypeError(str(exc)) from None

    return parsed


def _add_progress(parser: Parser) -> None:
    parser.group(OUTPUT).add_argument(
        "--progress",
        choices=PROGRESS,
        default="auto",
        help="on standard error: bars (tty), a line every few seconds (plain), JSON lines (json), or none",
    )


def _add_output(parser: Parser, json: bool) -> None:
    group = parser.group(OUTPUT)
    if json:
        group.add_argument("--json", action="store_true", help="print one JSON object, and errors as JSON, too")
    group.add_argument("-q", "--quiet", action="store_true", help="print the result alone: no progress, no summary")
    group.add_argument("-v", "--verbose", action="store_true", help="print a line for each request, without secrets")
    group.add_argument("--debug", action="store_true", help="the same, and the traceback of an error")


def given(args: argparse.Namespace, options: Iterable[Option], prefix: str = "") -> dict[str, Any]:
    """The values of the options that were given, by name."""
    found = {}
    for each in options:
        value = getattr(args, f"{prefix}_{each.name}" if prefix else each.name, None)
        if value is None:
            continue
        if each.repeat:
            value = [item for items in value for item in (items if isinstance(items, list) else [items])]
        found[each.name] = each.repeat(value) if callable(each.repeat) else value
    return found


def options_of(args: argparse.Namespace, kind: type[T]) -> T:
    """The options of a command that were given.

    Raises:
        UsageError: a value is malformed.
    """
    values = given(args, fields_of(kind))
    if issubclass(kind, SourceOptions):
        values["reading"] = _of_any_format(args, [each.read_options for each in formats()])
    if issubclass(kind, TargetOptions):
        values["writing"] = _of_any_format(args, [each.write_options for each in formats()])
    return kind(**values)


def _of_any_format(args: argparse.Namespace, kinds: Iterable[type[Options]]) -> dict[str, Any]:
    """The options of formats that were given; where only one format has them, they are checked before it is read."""
    declared = {kind: fields_of(kind) for kind in kinds}
    found = given(args, [each for options in declared.values() for each in options])
    fitting = [kind for kind, options in declared.items() if found.keys() <= {each.name for each in options}]
    if len(fitting) == 1:
        fitting[0](**found)
    return found


def refuse(args: argparse.Namespace, kind: type[Options], wanted: type[Options], what: str) -> None:
    """Refuse options of one type that another has not.

    Args:
        args: The arguments.
        kind: Type of options that were declared.
        wanted: Type of options that are used.
        what: What the others are for, for messages.

    Raises:
        UsageError: one is given.
    """
    used = {each.name for each in fields_of(wanted)}
    refused = [each for each in fields_of(kind) if each.name not in used]
    for name in given(args, refused):
        flag = next(each.flags[0] for each in refused if each.name == name)
        raise UsageError(f"{flag} is for {what}", hint="leave it out")


def add_source_registry(parser: Parser) -> None:
    """Add the options of the source registry, which start with `--from-`."""
    title = SOURCE_REGISTRY
    parser.add_argument_group(title, "where it is another than that of the target, or needs other options")
    own = [replace(each, group=title) for each in fields_of(RegistryOptions) if each.group == REGISTRY]
    _declare(parser, own, "from")
    parser.group(title).add_argument(
        "--from-password-stdin", action="store_true", help="read the password from standard input"
    )


def registry_of(args: argparse.Namespace, prefix: str = "") -> RegistryOptions | None:
    """Return the registry options that were given; None if there are none.

    Args:
        args: The arguments.
        prefix: `from`, for the registry of the source.

    Raises:
        UsageError: a password without a user, a user without a password, a key without a certificate, or a credential
            file that cannot be read.
    """
    found = given(args, fields_of(RegistryOptions), prefix)
    dash = f"{prefix}_" if prefix else ""
    stdin = getattr(args, f"{dash}password_stdin")
    start = f"--{prefix}-" if prefix else "--"
    username, password = credentials(found.pop("username", None), stdin, start)
    per_host = per_host_of(args)
    if not found and username is None and (prefix or not per_host):
        return None
    if "key_file" in found and "cert_file" not in found:
        raise UsageError(f"{start}key-file is the key of a client certificate", hint=f"add {start}cert-file FILE")
    if config := found.get("registry_config"):
        try:
            readable_file(str(config))
        except ValueError as exc:
            raise UsageError(f"{start}registry-config: {exc}", hint="check the path, or leave it out") from None
    elif prefix and "registry_config" in args:
        found["registry_config"] = args.registry_config
    return RegistryOptions(**found, username=username, password=password, per_host=per_host)


def per_host_of(args: argparse.Namespace) -> tuple[tuple[str, RegistryOptions], ...]:
    """Return the options of registries that a configuration file has."""
    found: tuple[tuple[str, RegistryOptions], ...] = vars(args).get("per_host", ())
    return found
