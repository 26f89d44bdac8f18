# SPDX-License-Identifier: Apache-2.0
"""The configuration files `ocibridge.toml`: defaults of flags, options of registries, aliases.

Their keys are the long names of flags, with the types and choices that these have. The file of a project may come with
a checkout of somebody else: it sets what makes an artifact, and nothing that decides whom ocibridge trusts, what it
overwrites, or where it sends something.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from .. import settings
from ..errors import UsageError, reading
from ..options import closest
from ..stores.registry.options import RegistryOptions
from . import options
from .parser import Commands, Parser

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEFAULTS, REGISTRIES, ALIASES = "defaults", "registries", "aliases"
PROJECT = frozenset(
    {"also", "annotation", "as", "bandwidth", "compress", "concurrency", "dialect", "exclude", "include", "layers"}
    | {"max-layers", "platform", "prefix", "progress", "quiet", "retries", "role", "timeout", "verbose", "zip-method"}
)
"""Keys that the file of a project may have."""
REFERENCES = ("source", "target", "subject", "before", "after", "reference", "references", "repository", "to")
"""Names of the arguments that may begin with an alias."""
_ALIAS = re.compile(r"[a-z0-9][a-z0-9_-]*")
_NO_ALIAS = ("localhost", "oci", "oci-archive", "docker", "ollama")
_PLACE = re.compile(r"[\w.-]+(:\d+)?(/[\w./-]+)?", re.ASCII)
_HEADER = re.compile(r"\s*\[([^\[\]]+)\]\s*(?:#.*)?")


@dataclass(frozen=True)
class Setting:
    """A value of a configuration file.

    Attributes:
        table: Names of the tables that it is in, from the outermost.
        key: Its key.
        value: Its value, as TOML has it.
        file: Its file.
    """

    table: tuple[str, ...]
    key: str
    value: Any
    file: ConfigFile

    @property
    def place(self) -> str:
        """File and line, for messages."""
        line = self.file.line(self.table, self.key)
        return f"{self.file.path}:{line}" if line else str(self.file.path)

    def wrong(self, what: str, hint: str) -> NoReturn:
        """Raise a usage error about the setting."""
        raise UsageError(f"{self.place}: {what}", hint=hint)


@dataclass(frozen=True)
class ConfigFile:
    """A configuration file.

    Attributes:
        path: Its path.
        text: Its text.
        tables: Its content.
        trusted: Whether it is the user's own.
    """

    path: Path
    text: str
    tables: Mapping[str, Any]
    trusted: bool

    @staticmethod
    def read(path: Path, trusted: bool) -> ConfigFile:
        """Read a file.

        Raises:
            SourceError: it cannot be read.
            UsageError: it is not TOML.
        """
        with reading(path):
            data = path.read_bytes()
        try:
            text = data.decode("utf-8-sig")
            return ConfigFile(path, text, tomllib.loads(text), trusted)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
            raise UsageError(
                f"{path} is no TOML: {exc}", hint="correct it, or set OCIBRIDGE_CONFIG= to go without it"
            ) from None

    def settings(self, *table: str) -> Iterator[Setting]:
        """The values of a table, which may be missing."""
        found: Any = self.tables
        for name in table:
            found = found.get(name, {}) if isinstance(found, dict) else {}
        if not isinstance(found, dict):
            Setting(table[:-1], table[-1], found, self).wrong(f"{table[-1]} is no table", f"write [{'.'.join(table)}]")
        for key, value in found.items():
            if not isinstance(value, dict):
                yield Setting(table, key, value, self)

    def tables_in(self, *table: str) -> list[str]:
        """The names of the tables in a table."""
        found: Any = self.tables
        for name in table:
            found = found.get(name, {})
        return [name for name, value in found.items() if isinstance(value, dict)]

    def line(self, table: tuple[str, ...], key: str) -> int | None:
        """The line of a key, where it is written in the usual way."""
        wanted, here = list(table), list[str]()
        for number, line in enumerate(self.text.splitlines(), 1):
            if header := _HEADER.fullmatch(line):
                here = [each.strip("\"' ") for each in re.findall(r"\"[^\"]*\"|'[^']*'|[^.]+", header[1])]
            elif here == wanted and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", line):
                return number
            if header and here == [*wanted, key]:
                return number
        return None


def defaults(files: Iterable[ConfigFile], parser: Parser, known: Callable[[], Iterable[str]] = tuple) -> dict[str, Any]:
    """The defaults of a command's flags, by the names of their values.

    Args:
        files: The files; a later one wins.
        parser: Of the command.
        known: Gives the flags of other commands, which `[defaults]` may set, too.

    Raises:
        UsageError: a key or value is wrong, or is not for the file of a project.
    """
    found: dict[str, Any] = {}
    for file in files:
        for table in ((DEFAULTS,), tuple(parser.prog.split()[1:])):
            for each in file.settings(*table):
                action = _action(parser, each, known if table == (DEFAULTS,) else tuple)
                _check_trust(each, file.trusted or each.key in PROJECT)
                if action is not None:
                    found.update(_values(action, each))
    return found


def registries(files: Iterable[ConfigFile]) -> tuple[tuple[str, RegistryOptions], ...]:
    """The options of registries, by host.

    Raises:
        UsageError: see `defaults`.
    """
    parser = Parser(prog=REGISTRIES)
    options.add_registry(parser)
    found: dict[str, dict[str, Any]] = {}
    for file in files:
        for each in file.settings(REGISTRIES):
            each.wrong("a registry is a table", f'write [{REGISTRIES}."{each.key}"]')
        for host in file.tables_in(REGISTRIES):
            for each in file.settings(REGISTRIES, host):
                _check_trust(each, file.trusted)
                if each.key in ("username", "registry-config"):
                    each.wrong(f"{each.key} is not for a single registry", "run 'ocibridge login'")
                action = _action(parser, each)
                assert action is not None
                found.setdefault(host.lower(), {}).update(_values(action, each))
    return tuple((host, RegistryOptions(**values)) for host, values in sorted(found.items()))


def aliases(files: Iterable[ConfigFile]) -> dict[str, str]:
    """The aliases: for each, `HOST[:PORT][/PREFIX]`.

    Raises:
        UsageError: see `defaults`.
    """
    found: dict[str, str] = {}
    for file in files:
        for each in file.settings(ALIASES):
            _check_trust(each, file.trusted)
            if not _ALIAS.fullmatch(each.key) or each.key in _NO_ALIAS:
                each.wrong(
                    f"{each.key!r} is no alias, as it could be a host or a scheme",
                    "give it a name of lower-case letters and digits, without '.' and ':'",
                )
            if not isinstance(each.value, str) or not _PLACE.fullmatch(each.value):
                each.wrong(f"{each.value!r} is no place in a registry", "write HOST[:PORT][/PREFIX]")
            found[each.key] = each.value.rstrip("/")
    return found


def check_tables(files: Iterable[ConfigFile], commands: Iterable[str]) -> None:
    """Refuse keys outside of a table, and tables that nobody reads.

    Raises:
        UsageError: there is one.
    """
    known = [DEFAULTS, REGISTRIES, ALIASES, *commands]
    for file in files:
        for each in file.settings():
            each.wrong(f"{each.key} is in no table", f"write it into [{DEFAULTS}], or into that of a command")
        for name in file.tables_in():
            if name not in known:
                near = closest(name, known)
                hint = f"did you mean [{near}]?" if near else f"the tables are {', '.join(known)}"
                Setting((), name, None, file).wrong(f"there is no command {name}", hint)


def check(files: Iterable[ConfigFile], everything: Parser) -> None:
    """Check all that is in the files.

    Raises:
        UsageError: something is wrong.
    """
    parsers = list(_commands_of(everything))
    flags = flags_of(everything)
    for parser in parsers:
        defaults(files, parser, lambda: flags)
    registries(files)
    aliases(files)


def flags_of(everything: Parser) -> list[str]:
    """The flags of all commands."""
    return [flag for parser in _commands_of(everything) for flag in parser.flags()]


def _commands_of(parser: Parser) -> Iterator[Parser]:
    commands = next((each for each in parser._actions if isinstance(each, Commands)), None)
    if commands is None:
        yield parser
    else:
        for each in commands.choices.values():
            yield from _commands_of(each)


def _check_trust(setting: Setting, trusted: bool) -> None:
    if not trusted:
        own = settings.config_file() or Path(settings.CONFIG_NAME)
        table = ".".join(setting.table)
        setting.wrong(
            f"{setting.key} of [{table}] is not for the file of a project, which may be somebody else's",
            f"leave it out, or write it into your own file {own}",
        )


def _action(parser: Parser, setting: Setting, known: Callable[[], Iterable[str]] = tuple) -> argparse.Action | None:
    """The declaration of the flag that a setting names; None where only other commands have it."""
    flag = f"--{setting.key}"
    if setting.key.startswith(("password", "from-password")):
        setting.wrong("a password is not for a configuration file", "run 'ocibridge login', which stores it safely")
    action = parser.flag(flag) if flag not in ("--help", "--version") else None
    if action is None and flag not in (others := list(known())):
        near = closest(flag, {*parser.flags(), *others})
        setting.wrong(
            f"[{'.'.join(setting.table)}] has no key {setting.key}",
            f"did you mean {near.lstrip('-')}?" if near else "its keys are the long names of flags, see --help",
        )
    return action


def _values(action: argparse.Action, setting: Setting) -> dict[str, Any]:
    """The value of a flag, converted and checked as on the command line."""
    value = setting.value
    if action.nargs == 0:
        if not isinstance(value, bool):
            setting.wrong(f"{setting.key} is true or false, and {value!r} is neither", "write true or false")
        if isinstance(action, argparse.BooleanOptionalAction):
            return {action.dest: value != setting.key.startswith("no-")}
        return {action.dest: action.const} if value else {action.dest: action.default}
    several = isinstance(action, argparse._AppendAction)
    texts = value if isinstance(value, list) and several else [value]
    if any(isinstance(each, (bool, list)) or not isinstance(each, (str, int, float)) for each in texts):
        setting.wrong(f"{setting.key} is {'a text, or a list of texts' if several else 'one value'}", "correct it")
    found = [_value(action, str(each), setting) for each in texts]
    return {action.dest: found if several else found[0]}


def _value(action: argparse.Action, text: str, setting: Setting) -> Any:
    if action.metavar == "FILE":
        text = str(setting.file.path.parent / Path(text).expanduser())
    try:
        value = action.type(text) if callable(action.type) else text
    except (argparse.ArgumentTypeError, ValueError) as exc:
        setting.wrong(f"{setting.key}: {exc}", "correct it")
    except UsageError as exc:
        setting.wrong(f"{setting.key}: {exc.message}", exc.hint or "correct it")
    if action.choices is not None and value not in action.choices:
        words = [str(each) for each in action.choices]
        near = closest(text, words)
        setting.wrong(
            f"{setting.key} cannot be {text!r}", f"did you mean {near}?" if near else f"give one of: {', '.join(words)}"
        )
    return value


def expand(args: argparse.Namespace, aliases: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Replace aliases at the start of references, and give each that was one, with what it stands for now.

    A path that exists is a path.
    """
    for name in REFERENCES:
        given = vars(args).get(name)
        words = given if isinstance(given, list) else [given]
        expanded = [_expanded(word, aliases) if isinstance(word, str) else word for word in words]
        yield from ((str(old), str(new)) for old, new in zip(words, expanded, strict=True) if old != new)
        if expanded != words:
            setattr(args, name, expanded if isinstance(given, list) else expanded[0])


def _expanded(word: str, aliases: Mapping[str, str]) -> str:
    alias, slash, rest = word.partition("/")
    return f"{aliases[alias]}/{rest}" if slash and alias in aliases and not os.path.lexists(word) else word


def called(parser: Parser, words: Iterable[str]) -> Parser:
    """The parser of the command that the arguments call, as deep as they name one."""
    for word in words:
        commands = next((each for each in parser._actions if isinstance(each, Commands)), None)
        if commands is None:
            break
        if word in commands.choices:
            parser = commands.choices[word]
    return parser
