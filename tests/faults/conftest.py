# SPDX-License-Identifier: Apache-2.0
"""One model for all fault tests, the registries in memory, and the way to them: direct, and through a proxy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ..leaks import nothing_left as nothing_left
from ..proxies import HttpProxy
from . import names
from .moves import Moves, make_model
from .quirks import Registry
from .server import Server

Run = Callable[[Server], Server]

without_a_proxy = pytest.mark.parametrize("way", ["direct"], indirect=True)
"""For tests of connecting itself: through a proxy, it is the proxy that does that."""


@pytest.fixture(autouse=True)
def clean(nothing_left: None) -> None:
    """See `tests.leaks`."""


@pytest.fixture(autouse=True, params=["direct", "proxied"])
def way(
    request: pytest.FixtureRequest, clean: None, isolated: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[HttpProxy | None]:
    """How servers are reached: where there is an HTTP proxy, it alone can resolve their names."""
    if request.param == "direct":
        yield None
        return
    for name, made_up in names.THROUGH_A_PROXY.items():
        monkeypatch.setitem(names.names, name, made_up)
    with HttpProxy() as proxy:
        for variable in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(variable, proxy.url)
        yield proxy


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
