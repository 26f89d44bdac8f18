# SPDX-License-Identifier: Apache-2.0
"""YAML of a job file: what it means, where things are, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ocibridge.errors import LimitError
from ocibridge.mirror.jobs import yamlfile
from ocibridge.mirror.jobs.yamlfile import Position, YamlError, YamlFile, dotted, read_yaml

QUOTE = "check the indentation here, and quote texts with special characters"


def read(folder: Path, text: str | bytes) -> YamlFile:
    path = folder / "f.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_yaml(path)


def value(folder: Path, text: str) -> Any:
    return read(folder, text).value


def problem(folder: Path, text: str | bytes) -> str:
    with pytest.raises(YamlError) as caught:
        read(folder, text)
    (line,) = caught.value.problems
    return line.removeprefix(f"{folder}/")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("yes", "yes"),
        ("on", "on"),
        ("true", True),
        ("12:30", "12:30"),
        ("2026-01-31", "2026-01-31"),
        ("1.10", 1.1),
        ("'1.10'", "1.10"),
        ("!!str 1.10", "1.10"),
        ("!!int '12'", 12),
        ("017", 17),
        ("0o17", 15),
        ("0x1F", 31),
        ("-3", -3),
        ("1e3", 1000.0),
        ("1_000", "1_000"),
        ("v1", "v1"),
        ("=", "="),
        ("'{{env \"X\"}}'", '{{env "X"}}'),
        ("|\n    a\n    b\n", "a\nb\n"),
    ],
)
def test_scalars_are_those_of_yaml_1_2(text: str, expected: object, tmp_path: Path) -> None:
    found = value(tmp_path, f"k: {text}\n")["k"]
    assert found == expected
    assert type(found) is type(expected)


def test_what_has_no_value_is_left_out(tmp_path: Path) -> None:
    assert value(tmp_path, "a:\nb: ~\nc: null\nd: ''\n") == {"d": ""}


def test_where_things_are(tmp_path: Path) -> None:
    file = read(tmp_path, "a:\n  - b: 1\n    'c d': [x, y]\ne:\n")
    assert file.places["a", 0, "b"] == Position(2, 8, "1")
    assert file.places["a", 0, "c d", 1] == Position(3, 16, "y")
    assert file.keys["a", 0, "c d"] == Position(3, 5, "c d")
    assert file.at(("a", 0, "c d", 1)) == f"{tmp_path}/f.yaml:3:16: a[0].'c d'[1]: "
    assert file.at(("a", 0, "nowhere")) == f"{tmp_path}/f.yaml:2:5: a[0].nowhere: "
    assert file.at(("e",), name=True) == f"{tmp_path}/f.yaml:4:1: e: "
    assert file.at(()) == f"{tmp_path}/f.yaml:1:1: "


def test_keys_for_people() -> None:
    assert dotted(("sync", 0, "tags", "allow", 12)) == "sync[0].tags.allow[12]"
    assert dotted(("x y", "a" * 61)) == f"'x y'.'{'a' * 61}'"
    assert dotted(()) == ""


def test_aliases_and_merged_mappings(tmp_path: Path) -> None:
    text = """\
one: &one {a: 1, b: 1}
two: &two {b: 2, c: 2}
own:
  <<: [*one, *two]
  c: 3
last:
  c:
  <<: {<<: *one, b: 4}
again: *two
"""
    file = read(tmp_path, text)
    assert file.value["own"] == {"a": 1, "b": 1, "c": 3}
    assert file.value["last"] == {"a": 1, "b": 4}
    assert file.value["again"] == {"b": 2, "c": 2}
    assert file.places["own", "a"] == Position(1, 15, "1")
    assert file.places["own", "c"] == Position(5, 6, "3")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\nb: 2\na: 3\n", "f.yaml:3:1: a: this key is also in line 1; keep one of the two"),
        ("x:\n  - {k: 1, k: 2}\n", "f.yaml:2:12: x[0].k: this key is also in line 2; keep one of the two"),
        ("1: a\n", "f.yaml:1:1: a key here is no text; quote it if it is meant"),
        ("a: {true: x}\n", "f.yaml:1:5: a: a key here is no text; quote it if it is meant"),
        ('a: {{env "X"}}\n', "f.yaml:1:5: a: a key here is no text; quote a text that begins with '{{'"),
        ("? [a]\n: b\n", "f.yaml:1:3: a key here is no text; quote it if it is meant"),
        (
            "a: !!python/name:os.system x\n",
            "f.yaml:1:4: a: a tag (!) is not accepted here; leave it out, or quote the text",
        ),
        ("a: !mine {b: c}\n", "f.yaml:1:4: a: a tag (!) is not accepted here; leave it out"),
        ("a: !!set {b, c}\n", "f.yaml:1:4: a: a tag (!) is not accepted here; leave it out"),
        ("a: !!binary aGk=\n", "f.yaml:1:4: a: a tag (!) is not accepted here; leave it out, or quote the text"),
        ("a: !!int x\n", "f.yaml:1:4: a: the value does not fit its tag (!); leave the tag out"),
        ("a: .inf\n", "f.yaml:1:4: a: this is no number that can be used; write another one"),
        ("a: .NaN\n", "f.yaml:1:4: a: this is no number that can be used; write another one"),
        ("a: &x [*x]\n", "f.yaml:1:4: a[0]: an alias names what it is in itself; write the values out"),
        ("a: &x\n  <<: *x\n", "f.yaml:1:4: a: an alias names what it is in itself; write the values out"),
        ("a: {<<: 3}\n", "f.yaml:1:9: a: '<<' needs a mapping, or a list of them; write '<<: *name'"),
        ("a: *b\n", "f.yaml:1:4: an alias (*) has no anchor before it; quote a text that begins with '*'"),
        (
            "a: &xyz 1\nb: &xyz 2\n",
            "f.yaml:2:4: an anchor (&) has the name of an earlier one; quote a text that begins with '&'",
        ),
        ("a: !x!y z\n", "f.yaml:1:4: a tag (!) is not known; quote a text that begins with '!'"),
        ("a: 1\n---\nb: 2\n", "f.yaml:2:1: a second document begins here; keep one document in the file"),
        ("a: @b\n", "f.yaml:1:4: this is no valid YAML (found character '@' that cannot start any token); " + QUOTE),
        ("a: [1, 2\nb: c\n", "f.yaml:2:2: this is no valid YAML (expected ',' or ']', but got ':'); " + QUOTE),
        (
            "a:\n  - b\n c: d\n",
            "f.yaml:3:2: this is no valid YAML (expected <block end>, but found '<block mapping start>'); " + QUOTE,
        ),
        ("a: 'b\n", "f.yaml:2:1: this is no valid YAML (found unexpected end of stream); " + QUOTE),
        (b"a: 1\nb: \xff\n", "f.yaml:2:1: the file is not UTF-8; save it with that encoding"),
        ("a: 1\nb: \x07\n", "f.yaml:2:1: the file has a control character in it; remove it"),
        ("\n\n", "f.yaml:1:1: the file is empty; see the example in docs/mirror-job.md"),
    ],
)
def test_what_is_refused(text: str | bytes, line: str, tmp_path: Path) -> None:
    assert problem(tmp_path, text) == line


def test_every_problem_is_listed(tmp_path: Path) -> None:
    with pytest.raises(YamlError) as caught:
        read(tmp_path, "a: 1\na: 2\nb: !x 1\n")
    assert len(caught.value.problems) == 2


def test_a_byte_order_mark_is_no_harm(tmp_path: Path) -> None:
    assert read(tmp_path, b"\xef\xbb\xbfa: 1\n").value == {"a": 1}


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    with pytest.raises(LimitError, match="has more than the 1024 KiB accepted; divide it into several files"):
        read(tmp_path, "#" * (yamlfile.MAX_BYTES + 1))


def test_an_alias_bomb(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{each}: &a{each} [{', '.join([f'*a{each - 1}'] * 10)}]" for each in range(1, 12)]
    with pytest.raises(LimitError, match="has more than the 100000 values accepted; use fewer aliases"):
        read(tmp_path, "\n".join(lines))


def test_a_bomb_of_merged_mappings(tmp_path: Path) -> None:
    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{each}: &a{each} {{<<: [{', '.join([f'*a{each - 1}'] * 10)}]}}" for each in range(1, 12)]
    with pytest.raises(LimitError, match="has more than the 100000 values accepted"):
        read(tmp_path, "\n".join(lines))


@pytest.mark.parametrize("count", [40, 100_000])
def test_deep_nesting(count: int, tmp_path: Path) -> None:
    text = "a: " + "[" * count + "]" * count
    assert "levels" in problem(tmp_path, text)


@settings(deadline=None)
@given(
    st.recursive(
        st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Co", "Cn"]))
        | st.integers()
        | st.booleans(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=4),
        max_leaves=12,
    )
)
def test_what_yaml_writes_is_read(tmp_path_factory: pytest.TempPathFactory, document: object) -> None:
    folder = tmp_path_factory.mktemp("yaml")

    def frozen(each: object) -> object:
        if isinstance(each, list):
            return tuple(map(frozen, each))
        return {key: frozen(inner) for key, inner in each.items()} if isinstance(each, dict) else each

    # PyYAML leaves texts bare that are numbers in YAML 1.2, such as 0E0; what is not a text needs no quotes.
    text = yaml.dump({"k": document}, Dumper=Quoting, allow_unicode=True)
    assert value(folder, text) == {"k": frozen(document)}


class Quoting(yaml.SafeDumper):
    """Writes every text in quotes."""

    def represent_text(self, data: str) -> yaml.Node:
        return self.represent_scalar("tag:yaml.org,2002:str", data, style='"')


Quoting.add_representer(str, Quoting.represent_text)


@pytest.mark.parametrize("number", ["0E0", "1e3", "-2E-1", ".5e1"])
def test_numbers_of_yaml_1_2_are_numbers(number: str, tmp_path: Path) -> None:
    assert value(tmp_path, f"k: {number}") == {"k": float(number)}
    assert value(tmp_path, f"k: '{number}'") == {"k": number}


@settings(deadline=None)
@given(st.binary(max_size=200) | st.text("ab:-[]{}&*!<'\"\n |>%@`?,#", max_size=60).map(str.encode))
def test_nothing_but_our_own_errors(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("yaml") / "f.yaml"
    path.write_bytes(data)
    try:
        read_yaml(path)
    except YamlError as exc:
        assert all(line.startswith(f"{path}:") for line in exc.problems)


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "Wort",
                "Wort:",
                "*Wort",
                "&Wort",
                "!Wort",
                "!Wort!x",
                "!!Wort",
                "<<: ",
                "k: ",
                "- ",
                "\n",
                " ",
                "'",
                '"',
                "\\",
                "[",
                "]",
                "{",
                "}",
                ",",
                "%Wort",
                "@Wort",
                "|",
                ">",
                "?",
                "#",
            ]
        ),
        max_size=14,
    )
)
def test_no_value_is_in_a_complaint(tmp_path_factory: pytest.TempPathFactory, parts: list[str]) -> None:
    path = tmp_path_factory.mktemp("yaml") / "f.yaml"
    path.write_text("a: 1\nk: " + "".join(parts))
    try:
        read_yaml(path)
    except YamlError as exc:
        # Keys are shown, where they are repeated.
        assert all("Wort" not in line or "this key is also" in line for line in exc.problems)
