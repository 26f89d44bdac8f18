# SPDX-License-Identifier: Apache-2.0
"""What `import ocibridge` offers."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import ocibridge


def test_type_checkers_see_what_there_is() -> None:
    tree = ast.parse(Path(ocibridge.__file__).read_text(encoding="utf-8"))
    (block,) = [each for each in tree.body if isinstance(each, ast.If)]
    seen = {
        alias.asname: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert seen == ocibridge._HOMES
    assert set(ocibridge.__all__) == {"__version__", *seen}


@pytest.mark.parametrize("name", ocibridge.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(ocibridge, name) is not None
    assert name in dir(ocibridge)


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Push'"):
        ocibridge.Push  # noqa: B018
