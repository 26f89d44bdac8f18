# SPDX-License-Identifier: Apache-2.0
"""An option is declared once: type, default and help in one field of one dataclass.

An operation (and a format) has one frozen dataclass of options, which derives from `Options`:

    @dataclass(frozen=True, kw_only=True)
    class PullOptions(Options):
        force: bool = option(False, help="replace the target if it exists")
        zip_method: str = option("stored", help="how members are compressed", choices=("stored", "deflate", "zstd"))

- The library calls `pull(source, dest, PullOptions(force=True))`. A value that is none of `choices` is a `UsageError`;
  where `choices` is an enum, its values are accepted as well as its members.
- The command line derives its flags from the fields (`ocibridge.cli.flags`): `--force`, `--zip-method {…}`. A field
  that is not made by `option` has no flag: it is for the library only.
- Job files, and whoever else has names and values, use `from_mapping`, which refuses unknown names.

Such a module is imported to print a help text, so it imports nothing but the standard library, `errors`, `settings`
and this module.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar, cast

from .errors import UsageError

_KEY = "ocibridge.option"
_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,9})?) ?([kKMGTP]i?B|B|)", re.ASCII)
_POWERS = "KMGTP"
_T = TypeVar("_T", bound="Options")

Choices = Sequence[str] | type[Enum] | Callable[[], Sequence[str]]


@dataclass(frozen=True)
class Option:
    """The declaration of one field; see `option`.

    Attributes:
        name: Name of the field.
        allowed: Values that it may have, or what gives them.
        flags: Names on the command line, without those of `short`; empty before `fields_of` has set them.
    """

    default: Any
    help: str
    metavar: str | None
    allowed: tuple[str, ...] | Callable[[], Sequence[str]] | None
    enum: type[Enum] | None
    flags: tuple[str, ...]
    short: str | None
    parse: Callable[[str], Any] | None
    repeat: bool | Callable[[Sequence[Any]], Any]
    negative: bool
    group: str | None
    name: str = ""

    @property
    def choices(self) -> tuple[str, ...] | None:
        """Values that it may have."""
        return tuple(self.allowed()) if callable(self.allowed) else self.allowed


def option(
    default: Any,
    *,
    help: str,
    metavar: str | None = None,
    choices: Choices | None = None,
    flag: str | Sequence[str] | None = None,
    short: str | None = None,
    parse: Callable[[str], Any] | None = None,
    repeat: bool | Callable[[Sequence[Any]], Any] = False,
    negative: bool = False,
    group: str | None = None,
) -> Any:
    """A field of a dataclass of options.

    Args:
        default: Its default, which is immutable. True and False make a flag without a value; where it is True, the flag
            is `--no-NAME`.
        help: What `--help` says, and what documents the field; `%(default)s` stands for the default.
        metavar: Stands for the value in the help text.
        choices: Values that it may have, or what gives them when they are asked for.
        flag: Its name on the command line, or several; `--` and the name of the field, with hyphens, by default.
        short: A short name on the command line, such as `-a`.
        parse: Makes the value of the text on the command line; its ValueError becomes a usage error.
        repeat: Whether the flag may be given several times. The values become a tuple, or what a callable that is given
            here makes of their list.
        negative: Of an option that is True, False or None (the default): `--NAME` and `--no-NAME`.
        group: Title of the group in the help text that the flag is part of.
    """
    enum: type[Enum] | None = None
    words: tuple[str, ...] | Callable[[], Sequence[str]] | None = None
    if isinstance(choices, Sequence):
        words = tuple(choices)
    elif isinstance(choices, type) and issubclass(choices, Enum):
        enum = choices
        words = tuple(str(each.value) for each in choices)
    else:
        words = cast("Callable[[], Sequence[str]] | None", choices)
    flags = () if flag is None else (flag,) if isinstance(flag, str) else tuple(flag)
    declared = Option(default, help, metavar, words, enum, flags, short, parse, repeat, negative, group)
    return field(default=default, metadata={_KEY: declared})


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word that a misspelt one is most like, or None.

    Example:
        >>> closest("--layer", ["--layers", "--prefix"])
        '--layers'
    """
    import difflib

    return next(iter(difflib.get_close_matches(word, list(known), 1)), None)


def fields_of(kind: type[Options]) -> tuple[Option, ...]:
    """The options of a type, its own before those that it has from its bases, with their names and flags."""
    order = [name for each in kind.__mro__ for name in vars(each).get("__annotations__", ())]
    found = []
    for each in sorted(fields(kind), key=lambda each: order.index(each.name)):
        declared = each.metadata.get(_KEY)
        if declared is not None:
            no = "no-" if declared.default is True else ""
            flags = declared.flags or (f"--{no}{each.name.replace('_', '-')}",)
            found.append(Option(**{**vars(declared), "name": each.name, "flags": flags}))
    return tuple(found)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Base of all types of options; checks the values.

    Raises:
        UsageError: a value is none of the choices, or one text is given where a list is expected.
    """

    def __post_init__(self) -> None:
        for each in fields_of(type(self)):
            value = getattr(self, each.name)
            checked = _checked(each, value)
            if checked is not value:
                object.__setattr__(self, each.name, checked)


def _checked(declared: Option, value: Any) -> Any:
    if value is declared.default:
        return value
    if declared.repeat is True:
        if isinstance(value, str):
            raise UsageError(f"{declared.name} is a list, and {value!r} is none", hint="give a list of texts")
        return tuple(_chosen(declared, each) for each in value)
    return _chosen(declared, value)


def _chosen(declared: Option, value: Any) -> Any:
    choices = declared.choices
    if choices is None:
        return value
    word = value.value if isinstance(value, Enum) else value
    if word not in choices:
        raise UsageError(f"{declared.flags[0]} cannot be {word!r}", hint=f"give one of: {', '.join(choices)}")
    return declared.enum(word) if declared.enum else word


def shared(kind: type[_T], options: Options, **changes: Any) -> _T:
    """Options of another type: the fields that both have, and `changes`."""
    both = {each.name for each in fields(kind)} & {each.name for each in fields(options)}
    return kind(**{name: getattr(options, name) for name in both} | changes)


def refuse_set(options: Options, kind: type[Options], reason: str) -> None:
    """Refuse options that have no effect.

    Args:
        options: The options.
        kind: The type whose fields are refused.
        reason: What they are for, and why that is not the case.

    Raises:
        UsageError: one is set.
    """
    for each in fields_of(kind):
        if getattr(options, each.name) != each.default:
            raise UsageError(f"{each.flags[0]} is for {reason}", hint="leave it out")


def count(text: str) -> int:
    """A whole number of 1 or more, for `parse`.

    Raises:
        ValueError: it is something else.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= 6 and int(text)):
        raise ValueError(f"{text!r} is no whole number of 1 or more")
    return int(text)


def readable_file(text: str) -> Path:
    """The path of a file that is there and can be read; it is not opened, as it may be a pipe.

    Raises:
        ValueError: it cannot be read.
    """
    path = Path(text)
    if not path.exists():
        raise ValueError(f"there is no file {text}")
    if path.is_dir():
        raise ValueError(f"{text} is a folder, not a file")
    if not os.access(path, os.R_OK):
        raise ValueError(f"{text} must not be read by this user")
    return path


def parse_size(text: str) -> int:
    """Bytes: a number with `KiB`, `MiB`, `GiB`, `TiB` or `PiB` (powers of 1024), `KB`, `MB`… (of 1000), `B` or nothing.

    Example:
        >>> parse_size("1.5GiB")
        1610612736

    Raises:
        ValueError: it is no size.
    """
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no size; write for example 500MB, 50MiB or 4GiB")
    number, unit = found[1], found[2].upper()
    factor: int = 1
    if unit not in ("", "B"):
        factor = (1024 if "I" in unit else 1000) ** (_POWERS.index(unit[0]) + 1)
    # Whole numbers stay exact.
    return int(float(number) * factor) if "." in number else int(number) * factor


def parse_rate(text: str) -> int:
    """Bytes per second: a size, with `/s` behind it or not.

    Raises:
        ValueError: it is none, or less than a byte.
    """
    try:
        rate = parse_size(text.removesuffix("/s"))
    except ValueError:
        rate = 0
    if rate < 1:
        raise ValueError(f"{text!r} is no rate; write for example 50MiB, which is 50 MiB a second")
    return rate


def from_mapping(kind: type[_T], values: Mapping[str, Any], owner: str) -> _T:
    """Options from names and values.

    Args:
        kind: The type of the options.
        values: By names of fields.
        owner: What the options are for, for messages, such as `a carton`.

    Raises:
        UsageError: there is no such option, or a value is none of its choices.
    """
    known = [each.name for each in fields(kind)]
    for name in values:
        if name not in known:
            raise UsageError(f"{owner} has no option {name}", hint=f"it has: {', '.join(known) or 'none'}")
    return kind(**values)
