# SPDX-License-Identifier: Apache-2.0
"""The argument parser: short usage lines, flags in groups, errors of one sentence that name the command."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from ..errors import UsageError
from ..options import closest
from .output import result

Commands = argparse._SubParsersAction  # the only name that argparse has for it
WIDEST = 100
"""Columns that a help text takes at most."""
TRANSFER, OUTPUT, REGISTRY, SOURCE_REGISTRY = "transfer", "general options", "registry", "registry of the source"
_LAST = (TRANSFER, OUTPUT, REGISTRY, SOURCE_REGISTRY)
"""Groups that stand last in a help text, in this order: those that nearly all commands have."""


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str, **kwargs: Any) -> None:
        width = min(shutil.get_terminal_size().columns, WIDEST) - 2
        super().__init__(prog, **{"max_help_position": 28, "width": width, **kwargs})

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """A description of one line is wrapped; what has several, as examples have, is left as it is."""
        if "\n" not in text:
            text = textwrap.fill(text, width - len(indent), break_on_hyphens=False)
        return super()._fill_text(text, width, indent)

    def _format_action(self, action: argparse.Action) -> str:
        text = super()._format_action(action)
        # Not the line COMMAND above the commands.
        return text.partition("\n")[2] if isinstance(action, Commands) else text


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are `UsageError`s: one sentence, like every other error.

    Attributes:
        sections: Titles, each with the commands under it; where there are none, commands are one list.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=_Formatter, add_help=False, **kwargs)
        self._positionals.title = "arguments"
        self.sections: list[tuple[str, Sequence[argparse.Action]]] = []
        group = self.group(OUTPUT)
        group.add_argument("-h", "--help", action="help", help="print this text")

    def group(self, title: str) -> argparse._ArgumentGroup:
        """The group of this title, which is made where there is none."""
        found = next((each for each in self._action_groups if each.title == title), None)
        return found or self.add_argument_group(title)

    def flag(self, name: str) -> argparse.Action | None:
        """The declaration of a flag."""
        return self._option_string_actions.get(name)

    def flags(self) -> list[str]:
        """The names of all flags, without those that the help text hides."""
        return [name for name, each in self._option_string_actions.items() if each.help != argparse.SUPPRESS]

    def format_help(self) -> str:
        """The help text: arguments, the command's own flags, and then those that all commands have."""
        formatter = self._get_formatter()
        formatter.add_usage(f"%(prog)s {self._usage()}", [], [])
        formatter.add_text(self.description)
        groups = [(each.title, each.description, each._group_actions) for each in self._action_groups]
        commands = [(title, None, actions) for title, actions in self.sections]
        hidden = self._positionals.title if commands else None
        ordered = sorted(groups, key=lambda each: _LAST.index(each[0]) + 1 if each[0] in _LAST else 0)
        for title, description, actions in [*commands, *(each for each in ordered if each[0] != hidden)]:
            formatter.start_section(title)
            formatter.add_text(description)
            formatter.add_arguments(actions)
            formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def _usage(self) -> str:
        shapes = {"?": "[{}]", "*": "[{}…]", "+": "{}…"}
        actions = [each for each in self._get_positional_actions() if each.help != argparse.SUPPRESS]
        words = [shapes.get(str(each.nargs), "{}").format(each.metavar or each.dest.upper()) for each in actions]
        if any(isinstance(each, Commands) for each in actions):
            return " ".join([*words, "[options]"])
        return " ".join(["[options]", *words])

    def print_help(self, file: object = None) -> None:
        """Print the help text on standard output."""
        result(self.format_help().rstrip())

    def error(self, message: str, mean: str = "") -> NoReturn:
        """Raise `message`, with the help text to look at; `mean` is a question that comes first."""
        head, lacks, _ = message.partition(": expected one argument")
        if lacks:
            mean = f"write {head.split()[-1].split('/')[-1]}=VALUE if its value begins with a dash."
        see = f"ee '{self.prog} --help'"
        raise UsageError(message, hint=f"{mean} S{see}" if mean else f"s{see}")

    def refuse(self, extra: Sequence[str]) -> NoReturn:
        """Raise for the first of several arguments that the command does not have."""
        word = next((each for each in extra if each.startswith("-") and each != "-"), None)
        if word is None:
            self.error(f"'{self.prog}' takes no further argument {extra[0]!r}")
        flag = word.partition("=")[0]
        self.error(f"'{self.prog}' has no option {flag}", _question(closest(flag, self.flags())))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        words = [str(each) for each in action.choices]
        mean = _question(closest(str(value), words))
        if isinstance(action, Commands):
            self.error(f"'{self.prog}' has no command {value!r}", mean)
        name = action.option_strings[-1] if action.option_strings else str(action.metavar or action.dest)
        choices = f"{'T' if mean else 't'}he choices are {', '.join(words)}."
        self.error(f"{name} cannot be {value!r}", f"{mean} {choices}".strip())


def _question(near: str | None) -> str:
    return f"did you mean {near}?" if near else ""


def add_command(
    commands: Commands[Any],
    name: str,
    summary: str,
    examples: str | Iterable[str],
    go_on: str | None = None,
    see: str | None = None,
) -> Parser:
    """A sub-parser.

    Args:
        commands: What `add_subparsers` returned.
        name: Name of the command.
        summary: One sentence; its first letter is lower-cased in the list of commands.
        examples: Command lines, or one.
        go_on: How to continue after Ctrl-C.
        see: A page of the documentation that has more.
    """
    lines = [examples] if isinstance(examples, str) else list(examples)
    epilog = "\n".join(["examples:", *(f"  {each}" for each in lines), *([f"\nmore: docs/{see}"] if see else [])])
    parser: Parser = commands.add_parser(
        name, help=summary[0].lower() + summary[1:].rstrip("."), description=summary, epilog=epilog
    )
    parser.set_defaults(parser=parser, go_on=go_on or "run the same command again")
    return parser


def add_commands(parser: Parser) -> Commands[Any]:
    """Give a command commands of its own; without one of them it is a usage error."""

    def missing(_: argparse.Namespace) -> NoReturn:
        parser.error(f"'{parser.prog}' needs one of its commands: {', '.join(commands.choices)}")

    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    parser.set_defaults(run=missing)
    return commands
