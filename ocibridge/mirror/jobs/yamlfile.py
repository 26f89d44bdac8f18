# SPDX-License-Identifier: Apache-2.0
"""YAML that people write: read safely, and every complaint names line, column and key.

The scalars are those of the YAML 1.2 core schema: `yes`, `on`, `12:30` and `2026-01-31` are texts, which YAML 1.1 takes
for something else. No text of the file appears in a complaint about its syntax, as it may be a password. The parser is
PyYAML's, whose nodes say where they stand; ruamel.yaml takes `2026-01-31` and `1_000` for no texts, accepts an anchor
twice, and shows the value of a key that is there twice.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ...errors import FormatError, LimitError, reading
from ...paths import show

MAX_BYTES = 1 << 20
MAX_VALUES = 100_000
MAX_DEPTH = 32

Key = tuple[str | int, ...]
"""Where a value is: keys and positions from the root down, such as `("sync", 0, "tags", "allow")`."""

_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_TAG = "tag:yaml.org,2002:"


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {}  # noqa: RUF012


for _name, _pattern, _first in (
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("int", r"^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$", "-+0123456789"),
    (
        "float",
        r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
        "-+0123456789.",
    ),
    ("null", r"^(?:~|null|Null|NULL|)$", "~nN"),
    ("merge", r"^<<$", "<"),
):
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(_pattern), [*_first, *([""] if _name == "null" else [])])


@dataclass(frozen=True, slots=True)
class Position:
    """Position of a value in the file.

    Attributes:
        line: From 1.
        column: From 1.
        text: The scalar as it is written, or None for a list or mapping.
    """

    line: int
    column: int
    text: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class YamlFile:
    """A file, read.

    Attributes:
        path: As it was given.
        data: Its bytes.
        value: What is in it: mappings are dicts, lists are tuples; keys without a value are left out.
        places: Where each value begins.
        keys: Where the key of each value of a mapping begins; also of those that are left out.
    """

    path: Path
    data: bytes = field(repr=False)
    value: Any = field(repr=False)
    places: dict[Key, Position] = field(repr=False)
    keys: dict[Key, Position] = field(repr=False)

    def at(self, key: Key, *, name: bool = False) -> str:
        """`FILE:LINE:COLUMN: sync[0].tags`: where a value is, or its key if `name` is true."""
        where = key
        table = self.keys if name and key in self.keys else self.places
        while where not in table and where:
            where = where[:-1]
        place = table.get(where, Position(1, 1))
        return f"{self.path}:{place.line}:{place.column}: " + (f"{dotted(key)}: " if key else "")


class YamlError(FormatError):
    """A file that is not what it should be.

    Attributes:
        problems: All that is wrong with it, each a line of its own; the message has them all.
    """

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.problems,)


def dotted(key: Key) -> str:
    """A key for people.

    Example:
        >>> dotted(("sync", 0, "tags", "allow"))
        'sync[0].tags.allow'
    """
    parts = (f"[{part}]" if isinstance(part, int) else f".{_plain(part)}" for part in key)
    return "".join(parts).removeprefix(".")


def read_yaml(path: Path) -> YamlFile:
    """Read a file.

    Raises:
        SourceError: it cannot be read.
        LimitError: it is larger, or has more values (aliases counted as often as they are used), than is accepted.
        YamlError: it is no YAML, or has in it what has no place in a settings file.
    """
    with reading(path), open(path, "rb") as file:
        data = file.read(MAX_BYTES + 1)
    return parse_yaml(path, data)


def parse_yaml(path: Path, data: bytes) -> YamlFile:
    """Read what is in a file; see `read_yaml`."""
    if len(data) > MAX_BYTES:
        raise LimitError(
            f"{path} has more than the {MAX_BYTES >> 10} KiB accepted", hint="divide it into several files"
        )
    root = _compose(path, data)
    if root is None:
        raise YamlError([f"{path}:1:1: the file is empty; see the example in docs/mirror-job.md"])
    walk = _NodeReader(path)
    value = walk.value(root, ())
    if walk.problems:
        raise YamlError(walk.problems)
    return YamlFile(path, data, value, walk.places, walk.keys)


def _compose(path: Path, data: bytes) -> yaml.Node | None:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data[: exc.start].count(b"\n") + 1
        raise YamlError([f"{path}:{line}:1: the file is not UTF-8; save it with that encoding"]) from None
    try:
        loader = _Loader(text)
        try:
            node: yaml.Node | None = loader.get_single_node()
            return node
        finally:
            loader.dispose()
    except yaml.reader.ReaderError as exc:
        line = text[: exc.position].count("\n") + 1
        raise YamlError([f"{path}:{line}:1: the file has a control character in it; remove it"]) from None
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else f"{path}:1:1"
        raise YamlError([f"{where}: {_syntax(exc)}"]) from None
    except RecursionError:
        raise YamlError(
            [f"{path}:1:1: lists and mappings are nested too deeply; {MAX_DEPTH} levels are enough"]
        ) from None


_SYNTAX = {
    "undefined alias": "an alias (*) has no anchor before it; quote a text that begins with '*'",
    "duplicate anchor": "an anchor (&) has the name of an earlier one; quote a text that begins with '&'",
    "tag handle": "a tag (!) is not known; quote a text that begins with '!'",
    "another document": "a second document begins here; keep one document in the file",
}
"""What the parser says with words of the file in it, and what needs no such words."""


def _syntax(exc: yaml.MarkedYAMLError) -> str:
    whole = f"{exc.context} {exc.problem}"
    for mark, sentence in _SYNTAX.items():
        if mark in whole:
            return sentence
    return f"this is no valid YAML ({exc.problem}); check the indentation here, and quote texts with special characters"


class _NodeReader:
    """From nodes to values; goes through what an alias names each time that it is used, and so can count it."""

    def __init__(self, path: Path) -> None:
        self.places: dict[Key, Position] = {}
        self.keys: dict[Key, Position] = {}
        self.problems: list[str] = []
        self._path = path
        self._count = 0
        self._open: list[int] = []

    def value(self, node: yaml.Node, key: Key) -> Any:
        self.places[key] = _place(node)
        with self._entered(node, key) as free:
            if not free:
                return None
            if isinstance(node, yaml.ScalarNode):
                return self._scalar(node, key)
            if node.tag not in (_TAG + "map", _TAG + "seq"):
                return self._problem(_place(node), key, "a tag (!) is not accepted here; leave it out")
            if isinstance(node, yaml.SequenceNode):
                return tuple(self.value(each, (*key, position)) for position, each in enumerate(node.value))
            assert isinstance(node, yaml.MappingNode)
            return self._mapping(node, key)

    def _mapping(self, node: yaml.MappingNode, key: Key, taken: frozenset[str] = frozenset()) -> dict[str, Any]:
        """The pairs of a mapping whose keys are not `taken`, then what `<<` brings: own keys win, then those of the
        earlier mapping (YAML merge key type)."""
        found: dict[str, Any] = {}
        own: dict[str, Position] = {}
        merged: list[yaml.Node] = []
        for name_node, value_node in node.value:
            place, name = _place(name_node), name_node.value
            if name_node.tag == _TAG + "merge":
                merged += value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
            elif name_node.tag != _TAG + "str":
                template = isinstance(name_node, yaml.MappingNode)
                hint = "quote a text that begins with '{{'" if template else "quote it if it is meant"
                self._problem(place, key, f"a key here is no text; {hint}")
            elif name in own:
                self._problem(place, (*key, name), f"this key is also in line {own[name].line}; keep one of the two")
            else:
                own[name] = place
                if name not in taken:
                    where = (*key, name)
                    self.keys[where] = place
                    found[name] = self.value(value_node, where)
        found = {name: value for name, value in found.items() if value is not None}
        for each in merged:
            known = taken.union(own, found)
            found = {**self._merged(each, key, known), **found}
        return found

    def _merged(self, node: yaml.Node, key: Key, taken: frozenset[str]) -> dict[str, Any]:
        if not isinstance(node, yaml.MappingNode):
            self._problem(_place(node), key, "'<<' needs a mapping, or a list of them; write '<<: *name'")
            return {}
        with self._entered(node, key) as free:
            return self._mapping(node, key, taken) if free else {}

    @contextmanager
    def _entered(self, node: yaml.Node, key: Key) -> Iterator[bool]:
        """Go into a list or mapping; false where that leads too deep, or round in a circle."""
        self._count += 1
        if self._count > MAX_VALUES:
            raise LimitError(
                f"{self._path} has more than the {MAX_VALUES} values accepted",
                hint="use fewer aliases, or several files",
            )
        if id(node) in self._open:
            self._problem(_place(node), key, "an alias names what it is in itself; write the values out")
        elif len(self._open) >= MAX_DEPTH:
            self._problem(_place(node), key, f"nested more than {MAX_DEPTH} levels deep; write it flatter")
        else:
            self._open.append(id(node))
            yield True
            self._open.pop()
            return
        yield False

    def _scalar(self, node: yaml.ScalarNode, key: Key) -> Any:
        kind, text = node.tag.removeprefix(_TAG), node.value
        try:
            if kind == "str":
                return text
            if kind == "null":
                return None
            if kind == "bool":
                return _BOOLEANS[text]
            if kind == "int":
                return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
            if kind == "float":
                number = float(re.sub(r"\.(?=inf|nan)", "", text.lower()))
                return (
                    number
                    if math.isfinite(number)
                    else self._problem(_place(node), key, "this is no number that can be used; write another one")
                )
        except (KeyError, ValueError):
            return self._problem(_place(node), key, "the value does not fit its tag (!); leave the tag out")
        return self._problem(_place(node), key, "a tag (!) is not accepted here; leave it out, or quote the text")

    def _problem(self, place: Position, key: Key, what: str) -> None:
        name = f"{dotted(key)}: " if key else ""
        self.problems.append(f"{self._path}:{place.line}:{place.column}: {name}{what}")


def _place(node: yaml.Node) -> Position:
    mark = node.start_mark
    return Position(mark.line + 1, mark.column + 1, node.value if isinstance(node, yaml.ScalarNode) else None)


def _plain(name: str) -> str:
    return name if re.fullmatch(r"[\w.-]{1,60}", name, re.ASCII) else show(name)
