# SPDX-License-Identifier: Apache-2.0
"""Globs and ignore files, against git itself where it is installed."""

import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ocibridge.errors import FormatError, LimitError
from ocibridge.formats.folder.globs import MAX_GLOB, Glob, parents
from ocibridge.formats.folder.ignore import MAX_PATTERNS, Ignores, parse_patterns, split_lines

GIT = shutil.which("git")


def ignored(text: str, path: str, is_folder: bool = False) -> bool:
    """Whether `path` or a folder that it is in is ignored, as the walk finds out."""
    rules = Ignores(parse_patterns(split_lines(text), "test"))
    return any(rules.ignores(parent, True) for parent in parents(path)) or rules.ignores(path, is_folder)


@pytest.mark.parametrize(
    ("glob", "path", "expected"),
    [
        ("*.bin", "a.bin", True),
        ("*.bin", "x/y/a.bin", True),
        ("*.bin", "a.bin.txt", False),
        ("/*.bin", "a.bin", True),
        ("/*.bin", "x/a.bin", False),
        ("x/*.bin", "x/a.bin", True),
        ("x/*.bin", "y/x/a.bin", False),
        ("x/*.bin", "x/y/a.bin", False),
        ("x/**/a.bin", "x/a.bin", True),
        ("x/**/a.bin", "x/1/2/a.bin", True),
        ("x/**", "x/1/2", True),
        ("x/**", "x", False),
        ("**/x/a", "x/a", True),
        ("**/x/a", "1/2/x/a", True),
        ("?.bin", "a.bin", True),
        ("?.bin", "ab.bin", False),
        ("[ab]?", "b1", True),
        ("[!ab]?", "b1", False),
        ("[a-c].bin", "b.bin", True),
        ("[]-]", "]", True),
        ("[]-]", "-", True),
        ("a\\*", "a*", True),
        ("a\\*", "ab", False),
        ("a*b*c", "a1b2b3c", True),
        ("a*b*c", "a1b2b3", False),
        ("*", "x", True),
        ("**", "x/y", True),
    ],
)
def test_what_a_glob_matches(glob: str, path: str, expected: bool) -> None:
    assert bool(Glob(glob).match_file(path)) is expected


def test_a_slash_at_the_end_means_folders() -> None:
    glob = Glob("src/")
    assert not glob.match_file("src")
    assert glob.match_file("src/")
    assert glob.covers("a/src/b/c")
    assert not glob.covers("a/src")


@pytest.mark.parametrize(
    "glob", ["/", "!", "!/", "a//b", "[a", "[b-a]", "a\\", "[[:alpha:]]", "x" * (MAX_GLOB + 1), "**/a/**/b/**/c"]
)
def test_what_is_no_glob(glob: str) -> None:
    with pytest.raises(ValueError):
        Glob(glob)


@pytest.mark.timeout(20)
def test_no_glob_takes_long() -> None:
    start = time.process_time()
    assert not Glob("a*" * 500 + "b").match_file("a" * 4000)
    assert not Glob("**a" * 300 + "b").match_file("a" * 4000)
    assert not Glob("**/a/**/b").match_file("a/" * 2000 + "a")
    assert not Glob("**/*a*a*/**/*a*a*b").match_file("aaaa/" * 800 + "a")
    assert not Glob("*a*a*/*a*a*/*a*a*/*a*a*b").match_file("/".join(["a" * 255] * 4))
    assert not Glob("[!b]*" * 200 + "b").match_file("a" * 4000)
    assert time.process_time() - start < 10


def test_brackets_that_python_would_warn_of() -> None:
    assert Glob("[a&&b]").match_file("a")
    assert not Glob("x[!a]y").match_file("x/y")


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("# a\n\na.txt", "a.txt", True),
        ("# a\n", "# a", False),
        ("\\# a", "# a", True),
        ("\\!a", "!a", True),
        ("*.txt\n!a.txt", "a.txt", False),
        ("*.txt\n!a.txt\na.*", "a.txt", True),
        ("x/\n!x/a", "x/a", True),
        ("a  ", "a", True),
        ("a\\ ", "a ", True),
        ("a\\ ", "a", False),
        ("a\r\nb\r\n", "a", True),
        ("x/", "x", False),
    ],
)
def test_what_an_ignore_file_means(text: str, path: str, expected: bool) -> None:
    assert ignored(text, path) is expected


def test_a_bad_pattern_is_named() -> None:
    with pytest.raises(FormatError, match=r"F, pattern 2: 'b\[' is no pattern of gitignore"):
        list(parse_patterns(["a", "b["], "F"))


def test_too_many_patterns() -> None:
    with pytest.raises(LimitError, match="more than the 10000 patterns"):
        list(parse_patterns(["a"] * (MAX_PATTERNS + 1), "F"))


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("repository")
    if GIT:
        subprocess.run([GIT, "init", "-q", str(path)], check=True, capture_output=True)
    return path


pieces = st.sampled_from(["a", "b", "-", "*", "**", "?", "/", "/**/", "[ab]", "[!a]", "[a-b]", "\\a", "\\*", " ", "!"])
# Of `a**/b`, git compares the `a` first and then takes the stars for a part of their own, which gitignore(5) denies.
patterns = st.builds("".join, st.lists(pieces, min_size=1, max_size=6)).filter(
    lambda text: not re.search(r"[^/*!]\*{2,}/", text)
)
names = st.text("ab-*", min_size=1, max_size=3)
paths = st.builds("/".join, st.lists(names, min_size=1, max_size=4))


@pytest.mark.skipif(GIT is None, reason="git is not installed")
@given(st.lists(patterns, min_size=1, max_size=4), st.lists(paths, min_size=1, max_size=10, unique=True))
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_git_ignores_the_same(repository: Path, lines: list[str], asked: list[str]) -> None:
    try:
        list(parse_patterns(lines, "test"))
    except FormatError:
        return
    text = "\n".join(lines)
    (repository / ".gitignore").write_text(text, encoding="utf-8")
    assert GIT
    done = subprocess.run(
        [GIT, "-c", "core.excludesFile=", "-C", str(repository), "check-ignore", "--no-index", "--stdin", "-z"],
        input="\0".join(asked).encode(),
        capture_output=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    theirs = set(done.stdout.decode().split("\0")) - {""}
    assert {path for path in asked if ignored(text, path)} == theirs
