# SPDX-License-Identifier: Apache-2.0
"""`.ocibridge.toml` and `.ocibridgeignore`: what they say, and which sentence a mistake gets."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocibridge.errors import FormatError, LimitError, OcibridgeError
from ocibridge.formats.folder.instructions import read_instructions
from ocibridge.formats.folder.settings_file import parse_settings
from ocibridge.model import ModelInfo, Role
from ocibridge.settings import DEFAULT_LIMITS, Limits

TEXT = """
ignore = ["checkpoints/", "!keep.pyc"]
[model]
name = " digits "
licenses = ["mit", "llama3"]
authors = ["A", "B"]
param_size = "9.3K"
[roles]
"assets/*.bin" = "doc"
"*.bin" = "dataset"
"""


def test_what_it_says(tmp_path: Path) -> None:
    (tmp_path / ".ocibridge.toml").write_text(TEXT, encoding="utf-8")
    (tmp_path / ".ocibridgeignore").write_text("*.log\n!checkpoints/\n", encoding="utf-8")
    said = read_instructions(tmp_path, DEFAULT_LIMITS)
    assert [(rule.glob, rule.role) for rule in said.rules] == [("assets/*.bin", Role.DOC), ("*.bin", Role.DATASET)]
    assert said.settings
    info = said.settings.over(ModelInfo(name="x", family="f", licenses=("Apache-2.0",)))
    assert (info.name, info.family, info.param_size) == ("digits", "f", "9.3K")
    assert (info.licenses, info.authors) == (("MIT", "llama3"), ("A", "B"))
    assert said.ignores.ignores("a.log", False)
    assert said.ignores.ignores("x/.git", True)
    assert not said.ignores.ignores("checkpoints", True)
    assert not said.ignores.ignores("keep.pyc", False)


def test_a_folder_that_says_nothing(tmp_path: Path) -> None:
    said = read_instructions(tmp_path, DEFAULT_LIMITS)
    assert (said.settings, said.rules) == (None, ())
    assert said.ignores.ignores(".cache/huggingface", True)
    assert not said.ignores.ignores(".cache", True)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = ", "F is not valid TOML"),
        ("x = 1", "F: x: extra inputs are not permitted; the keys known here are ignore, model, roles"),
        ("[model]\nnaem = 'x'", "F: model.naem: extra inputs are not permitted; the keys known here are name, title"),
        ("[model]\nname = 1", "F: model.name: input should be a valid string"),
        ("[model]\nname = ''", "F: model.name: string should have at least 1 character"),
        ("[model]\nlicenses = 'MIT'", "F: model.licenses: input should be a valid list"),
        ("[model]\nparam_size = '7 B'", "F: model.param_size: string should match"),
        ("[roles]\n'*.bin' = 'weights'", "F: roles.*.bin: input should be 'weight', 'weight.config'"),
        ("[roles]\n'a[' = 'doc'", "F: roles: the glob 'a[' is no pattern of gitignore"),
        ("ignore = [1]", "F: ignore.0: input should be a valid string"),
    ],
)
def test_a_mistake_is_named(text: str, sentence: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_settings(text, "F")
    assert str(caught.value).startswith(sentence)


def test_a_bad_pattern_in_the_settings(tmp_path: Path) -> None:
    (tmp_path / ".ocibridge.toml").write_text('ignore = ["["]', encoding="utf-8")
    with pytest.raises(FormatError, match=r"\.ocibridge\.toml: ignore, pattern 1: '\[' is no pattern"):
        read_instructions(tmp_path, DEFAULT_LIMITS)


@pytest.mark.parametrize("name", [".ocibridge.toml", ".ocibridgeignore"])
class TestFiles:
    def test_a_link_is_not_followed(self, tmp_path: Path, name: str) -> None:
        (tmp_path / name).symlink_to("/etc/hostname")
        with pytest.raises(FormatError, match="is no regular file"):
            read_instructions(tmp_path, DEFAULT_LIMITS)

    def test_too_large(self, tmp_path: Path, name: str) -> None:
        (tmp_path / name).write_text("#" * 11, encoding="utf-8")
        with pytest.raises(LimitError, match="11 bytes, more than the 10 accepted"):
            read_instructions(tmp_path, Limits(metadata=10))

    def test_not_utf8(self, tmp_path: Path, name: str) -> None:
        (tmp_path / name).write_bytes(b"\xff")
        with pytest.raises(FormatError, match="is not UTF-8"):
            read_instructions(tmp_path, DEFAULT_LIMITS)


values = st.one_of(st.text(max_size=9).map(repr), st.integers().map(str), st.sampled_from(["[]", "{}", "['a']", "1.5"]))
keys = st.sampled_from(["ignore", "model", "roles", "model.name", "model.licenses", "roles.x", "roles.'['", "x"])


@given(st.lists(st.builds("{} = {}\n".format, keys, values), max_size=4).map("".join) | st.text(max_size=80))
def test_arbitrary_text(text: str) -> None:
    with suppress(OcibridgeError):
        parse_settings(text, "F").over(ModelInfo())
