# SPDX-License-Identifier: Apache-2.0
"""The formats there are: one table, and what other packages add (entry points of the group `ocibridge.formats`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from ..errors import UsageError
from ..options import Options, fields_of
from ..plugins import plugins
from .format import Address, AnyFormat, Format

GROUP = "ocibridge.formats"
FOLDER = "folder"

_TABLE = {
    "carton": "carton:CartonFormat",
    "mlarchive": "mlsteam:MlsteamFormat",
    "ollama": "ollama:OllamaFormat",
    FOLDER: "folder:FolderFormat",
}
"""Module and class of each format; the most specific first."""

OptionsT = TypeVar("OptionsT", bound=Options)


@cache
def _built_in(name: str) -> AnyFormat:
    module, _, kind = _TABLE[name].partition(":")
    found = getattr(import_module(f".{module}", __package__), kind)()
    assert isinstance(found, Format)
    return found


def added_formats() -> tuple[AnyFormat, ...]:
    """The formats of other packages."""
    return plugins(GROUP, f"{__package__}.format:Format", frozenset(_TABLE))


def formats() -> Iterator[AnyFormat]:
    """Every format, the most specific first; each is loaded when it is reached."""
    yield from (_built_in(name) for name in _TABLE if name != FOLDER)
    yield from added_formats()
    yield _built_in(FOLDER)  # which takes any folder


def path_formats() -> tuple[str, ...]:
    """The names of the formats that can be written to a path: what `--as` takes."""
    return tuple(each.name for each in formats() if not each.scheme)


def format_named(name: str | None) -> AnyFormat | None:
    """The format of this name, if there is one."""
    if name in _TABLE:
        return _built_in(name)
    return next((each for each in added_formats() if each.name == name), None)


def format_of(path: Path) -> AnyFormat | None:
    """The first format that recognises what is at `path`."""
    return next((each for each in formats() if each.matches(path)), None)


def format_for(target: Path) -> AnyFormat | None:
    """The format whose files have the suffix of this name."""
    return next((each for each in formats() if each.suits(target)), None) if target.suffix else None


def address_of(text: str) -> Address[Any, Any] | None:
    """Parse a text that begins with the scheme of a format, such as `ollama:NAME`.

    Raises:
        InvalidReference: it begins so, and breaks the rules of the format.
    """
    scheme, colon, _ = text.partition(":")
    if not colon or not scheme.isidentifier():
        return None
    found = next((each for each in formats() if each.scheme == scheme), None)
    return found.address(text) if found else None


def fitting(kind: type[OptionsT], given: Options | Mapping[str, Any], subject: str) -> OptionsT:
    """Options that a format takes, of those that were given.

    Args:
        kind: Its `read_options` or `write_options`.
        given: Such options; or those of another format, of which none may be set that this one has not; or any by name,
            of which this one has each.
        subject: What is read or written, for messages.

    Raises:
        UsageError: an option is for another format.
    """
    if isinstance(given, kind) and type(given) is kind:
        return given
    known = {each.name for each in fields(kind)}
    for name in options_set(given):
        if name not in known:
            flag, labels = _owners(name)
            raise UsageError(f"{flag} is for {labels}, and {subject} is none", hint=f"leave out {flag}")
    values = {each.name: getattr(given, each.name) for each in fields(given)} if isinstance(given, Options) else given
    return kind(**{name: value for name, value in values.items() if name in known})


def options_set(given: Options | Mapping[str, Any]) -> list[str]:
    """The names of options of a format that somebody has set: those in a mapping, or those that differ from a default.

    Raises:
        UsageError: no format has one of them.
    """
    if not isinstance(given, Options):
        for name in given:
            _owners(name)
        return list(given)
    return [each.name for each in fields_of(type(given)) if getattr(given, each.name) != each.default]


def refuse_options(given: Options | Mapping[str, Any], reason: str) -> None:
    """Refuse all options of formats.

    Args:
        given: See `fitting`.
        reason: Why none has an effect, as a clause.

    Raises:
        UsageError: one is set.
    """
    for name in options_set(given):
        flag, labels = _owners(name)
        raise UsageError(f"{flag} is for {labels}, and {reason}", hint=f"leave out {flag}")


def _owners(name: str) -> tuple[str, str]:
    """The flag of an option of formats, and what these formats are called."""
    found = [
        (option.flags[0], each.label)
        for each in formats()
        for option in (*fields_of(each.read_options), *fields_of(each.write_options))
        if option.name == name
    ]
    if not found:
        raise UsageError(f"no format has an option {name}", hint="correct its name, or leave it out")
    return found[0][0], " and ".join(dict.fromkeys(label for _, label in found))
