# SPDX-License-Identifier: Apache-2.0
"""The retired words of the glossary (CONTRIBUTING.md) occur nowhere in package, help texts and documentation."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = sorted((ROOT / "ocibridge").rglob("*.py"))
PAGES = sorted(
    path
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
    # Architecture names what was, benchmarks are written by a program, the glossary is the list itself.
    if path.name not in ("architecture.md", "benchmarks.md", "CONTRIBUTING.md")
)

RETIRED = {
    "box, boxes": r"box(?:es)?",
    "house, floor": r"house|floors?(?!\()",
    "room": r"rooms?",
    "carry (but 'carried over')": r"carrier|carry|carries|carried(?! over)",
    "mover": r"movers?",
    "lines for connections": r"lost line|line (?:broke|breaks|drops)|lines that drip",
    "answer": r"answer(?:s|ed|ing)?",
    "reply": r"reply|replies|replied",
    "patience": r"patien(?:ce|t)",
    "site": r"sites?",
    "manners": r"manners|polite(?:ness|ly)?",
    "quota": r"quotas?",
    "turns": r"turns(?! (?:out|into))",
    "heed": r"heed(?:s|ed)?",
    "beside": r"beside",
    "seal": r"seal(?:s|ed)?",
    "in step": r"in[ _]step(?! by)",
    "mend": r"mend(?:s|ed|ing)?",
    "heal": r"heal(?:s|ed|ing)?",
    "sibling": r"siblings?",
    "reword": r"reword(?:s|ed|ing)?",
    "bridge (the verb)": r"bridg(?:es|ed|ing)",
    "go on": r"go(?:es|ing)? on",
    "vouch": r"vouch(?:es|ed)?",
    "told": r"told",
    "said": r"said",
    "believe": r"believ(?:e|es|ed)",
    "foretell": r"foretells?|foretold|foresees?",
    "none of ours": r"none of ours",
    "airgap lock": r"airgap[-_]lock|--lock\b",
    "walk for a full check": r"--walk\b|\bwalk=",
}

ALLOWED = {
    ("ocibridge/dialects/annotations.py", "sibling"): "the key org.ocibridge.sibling is part of published digests",
    ("ocibridge/dialects/image.py", "sibling"): "the same key",
    ("docs/formats/annotations.md", "sibling"): "the same key",
    ("ocibridge/mirror/output/html.py", "box, boxes"): "the attribute viewBox of SVG",
    ("ocibridge/errors.py", "quota"): "a disk quota (EDQUOT)",
    ("ocibridge/formats/mlsteam/encrypted.py", "seal"): "Seal mode of a Themis Secure Cell",
}
"""Occurrences that stay, and why."""


def _pattern(expression: str) -> re.Pattern[str]:
    """A pattern that also finds a word inside `snake_case` identifiers."""
    return re.compile(rf"(?<![A-Za-z])(?:{expression})(?![a-z])", re.IGNORECASE)


PATTERNS = {word: _pattern(expression) for word, expression in RETIRED.items()}


def _found(path: Path) -> dict[str, list[str]]:
    text = path.read_text(encoding="utf-8")
    # Words of CamelCase names are separate words, too.
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])", " ", text)
    lines = text.splitlines()
    joined = re.sub(r"\s+", " ", text)
    return {
        word: [line.strip() for line in lines if pattern.search(line)] or [joined[max(0, hit.start() - 40) : hit.end()]]
        for word, pattern in PATTERNS.items()
        if (hit := pattern.search(joined))
    }


@pytest.mark.parametrize("path", [*PACKAGE, *PAGES], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_retired_word(path: Path) -> None:
    name = path.relative_to(ROOT).as_posix()
    found = {word: lines for word, lines in _found(path).items() if (name, word) not in ALLOWED}
    assert not found, "see the glossary in CONTRIBUTING.md"


@pytest.mark.parametrize(("name", "word"), ALLOWED, ids=str)
def test_each_exception_is_needed(name: str, word: str) -> None:
    assert word in _found(ROOT / name)


def test_help_texts_have_no_retired_word() -> None:
    """They are put together while the program runs: whole, as a user sees them."""
    commands = ["push", "pull", "copy", "convert", "inspect", "verify", "login", "mirror run", "volume check"]
    env = {**os.environ, "COLUMNS": "1000"}
    for command in commands:
        run = [sys.executable, "-m", "ocibridge", *command.split(), "--help"]
        text = subprocess.run(run, capture_output=True, text=True, check=True, env=env, cwd=ROOT).stdout
        assert [word for word, pattern in PATTERNS.items() if pattern.search(text)] == [], command


@pytest.mark.parametrize("path", PACKAGE, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_docstrings_begin_with_a_noun_or_a_verb(path: Path) -> None:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = (ast.get_docstring(node) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds))
    assert [text for text in texts if text and re.match(r"(What|Whether|Where|Which|How|Who)\b", text)] == []


def test_a_class_name_means_one_thing() -> None:
    names = Counter(
        node.name.lstrip("_")
        for path in PACKAGE
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("class BoxReader:", "box, boxes"),
        ("def open_box(path):", "box, boxes"),
        ("it goes\n    on later", "go on"),
        ("hold the carrier", "carry (but 'carried over')"),
        ("_beside = 1", "beside"),
        ("kept in step with it", "in step"),
    ],
)
def test_what_is_found(tmp_path: Path, text: str, word: str) -> None:
    path = tmp_path / "x.py"
    path.write_text(text)
    assert list(_found(path)) == [word]


@pytest.mark.parametrize(
    "text", ["done in step by step", "busybox", "math.floor(1)", "not carried over: x", "it turns out", "bridge"]
)
def test_what_is_fine(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.py"
    path.write_text(text)
    assert _found(path) == {}
