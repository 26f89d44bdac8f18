# SPDX-License-Identifier: Apache-2.0
"""What the command line says when a registry or a line misbehaves: one line on standard error, and a status."""

from __future__ import annotations

from pathlib import Path

import pytest

from ocibridge.cli.main import main

from ..registry import RegistryServer
from ..stores.registry.fault_server import Reply
from .conftest import without_a_proxy
from .moves import Moves, weight
from .proxy import Line, Proxy, Way
from .quirks import Registry

EVER = 1000


def said(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, str]:
    capsys.readouterr()
    status = main([*(str(each) for each in argv), "--plain-http"])
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return status, err


def test_there_and_back_over_a_bad_line(
    moves: Moves, repository: str, registry: RegistryServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Proxy(registry.host, Line(Way(cut=200_000))) as proxy:
        assert said(capsys, "push", "-q", moves.model, f"{proxy.host}/{repository}:v1") == (0, "")
    with Proxy(registry.host, Line(down=Way(cut=300_000))) as proxy:
        assert said(capsys, "pull", "-q", f"{proxy.host}/{repository}:v1", tmp_path / "back") == (0, "")
    assert (tmp_path / "back" / "model" / "weights.bin").read_bytes() == weight(1_100_000)


def test_a_pull_that_fails(moves: Moves, pushed: Registry, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pushed.fault("GET", "/blobs/", lambda seen, true: Reply(404), times=EVER)
    status, err = said(capsys, "pull", moves.place(pushed.host), tmp_path / "back.carton")
    assert status == 1
    assert "status 404" in err.splitlines()[-1]
    assert not (tmp_path / "back.carton").exists()


def test_a_push_that_fails(moves: Moves, server: Registry, capsys: pytest.CaptureFixture[str]) -> None:
    server.fault("PUT|PATCH", "/uploads/", lambda seen, true: Reply(403), times=EVER)
    status, err = said(capsys, "push", "-q", moves.model, moves.place(server.host))
    assert (status, err.count("\n")) == (1, 1)
    assert "status 403" in err
    assert not server.tags


@without_a_proxy
def test_a_registry_that_is_not_there(
    moves: Moves, registry: RegistryServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with Proxy(registry.host, listening=False) as proxy:
        status, err = said(capsys, "push", "-q", moves.model, moves.place(proxy.host))
    assert (status, err.count("\n")) == (1, 1)
    assert "refused the connection; check the port" in err
