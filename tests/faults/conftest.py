# SPDX-License-Identifier: Apache-2.0
"""One model for all fault tests, and the registries in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ..leaks import nothing_left as nothing_left
from .moves import Moves, make_model
from .quirks import Registry
from .server import Server

Run = Callable[[Server], Server]


@pytest.fixture(autouse=True)
def clean(nothing_left: None) -> None:
    """See `tests.leaks`."""


@pytest.fixture(scope="session")
def carton(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model") / "digits.carton")


@pytest.fixture
def moves(carton: Path, tmp_path: Path) -> Moves:
    return Moves(carton, tmp_path)


@pytest.fixture
def run() -> Iterator[Run]:
    """Start servers that stop with the test."""
    with ExitStack() as stack:
        yield stack.enter_context


@pytest.fixture
def server() -> Iterator[Registry]:
    """A registry without quirks, to which faults are added."""
    with Registry() as running:
        yield running


@pytest.fixture
def pushed(server: Registry, moves: Moves) -> Registry:
    """The same, with the model in it."""
    moves.push(server.host)
    server.seen.clear()
    return server
