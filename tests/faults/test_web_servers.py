# SPDX-License-Identifier: Apache-2.0
"""Hosts that are no registries, and registries that ask nobody for a login: what is said of them is true."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

import ocibridge
from ocibridge.cli.main import main
from ocibridge.stores.registry import login

from ..stores.registry.fault_server import Reply, Seen
from .conftest import Run
from .moves import OPTIONS, Moves, one_sentence
from .quirks import Registry
from .server import Server
from .tokens import SECRET, USER, BasicRegistry

HTML = {"Content-Type": "text/html;charset=utf-8"}
PAGE = b"<!DOCTYPE HTML><html><body><h1>%s</h1></body></html>"


class WebServer(Server):
    """Answers everything alike."""

    def __init__(self, status: int, page: bytes = PAGE, headers: dict[str, str] = HTML) -> None:
        super().__init__()
        self._reply = Reply(status, page, headers)

    def reply(self, seen: Seen) -> Reply:
        return self._reply


class PythonServer(WebServer):
    """As `python -m http.server` in an empty folder."""

    def __init__(self) -> None:
        super().__init__(404)

    def reply(self, seen: Seen) -> Reply:
        return self._reply if seen.method in ("GET", "HEAD") else Reply(501, PAGE, HTML)


SERVERS: dict[str, Callable[[], WebServer]] = {
    "404": lambda: WebServer(404),
    "405": lambda: WebServer(405),
    "501": lambda: WebServer(501),
    "python": PythonServer,
    "200": lambda: WebServer(200),
}
NO_REGISTRY = "responded as a web server, not as a registry.*check the host and the port"


@pytest.fixture
def web(request: pytest.FixtureRequest, run: Run) -> WebServer:
    server = SERVERS[request.param]()
    run(server)
    return server


servers = pytest.mark.parametrize("web", SERVERS, indirect=True)


@servers
def test_a_login_to_a_web_server_is_none(web: WebServer, isolated: Path) -> None:
    with pytest.raises(ocibridge.StoreError, match=NO_REGISTRY) as caught:
        login(web.host, USER, SECRET, OPTIONS)
    one_sentence(caught.value)
    assert not list(isolated.rglob("*.json"))
    # It has asked for nothing, so it was told nothing.
    assert {seen.authorization for seen in web.seen} == {None}


@servers
def test_a_push_to_a_web_server_says_that_it_is_no_registry(web: WebServer, moves: Moves) -> None:
    moves.push_fails(web.host, NO_REGISTRY)


@servers
def test_a_pull_from_a_web_server_says_that_it_is_no_registry(web: WebServer, moves: Moves) -> None:
    moves.pull_fails(web.host, NO_REGISTRY, ocibridge.OcibridgeError)


@servers
def test_commands_say_so_too(
    web: WebServer, moves: Moves, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for argv in (
        ["push", "-q", str(moves.model), moves.place(web.host)],
        ["pull", "-q", moves.place(web.host), str(moves.folder / "back")],
        ["inspect", moves.place(web.host)],
    ):
        assert main([*argv, "--plain-http"]) == 1
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        assert "responded as a web server, not as a registry" in err


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"404 page not found\n", {"Content-Type": "text/plain; charset=utf-8"}),
        (b'{"message":"Not Found"}', {"Content-Type": "application/json"}),
        (b"", {}),
    ],
    ids=["text", "json", "nothing"],
)
def test_a_login_where_the_api_is_not_is_no_login(
    body: bytes, headers: dict[str, str], run: Run, isolated: Path
) -> None:
    server = WebServer(404, body, headers)
    run(server)
    with pytest.raises(ocibridge.StoreError, match=r"status 404.*check the host and the port") as caught:
        login(server.host, USER, SECRET, OPTIONS)
    # There is no name and no tag that could be wrong.
    assert "tag" not in one_sentence(caught.value)
    assert not list(isolated.rglob("*.json"))


def test_a_login_that_nobody_asks_for_is_stored_and_proves_nothing(server: Registry, isolated: Path) -> None:
    done = login(server.host, USER, SECRET, OPTIONS)
    assert not done.proven
    assert server.host in json.loads(Path(done.stored).read_text())["auths"]
    assert {seen.authorization for seen in server.seen} == {None}


def test_a_login_that_is_asked_for_is_proven(run: Run) -> None:
    registry = BasicRegistry()
    run(registry)
    assert login(registry.host, USER, SECRET, OPTIONS).proven
    with pytest.raises(ocibridge.AuthenticationError, match="refused the login of 'tester'"):
        login(registry.host, USER, "wrong-one", OPTIONS)


def test_the_command_says_whether_a_login_was_checked(
    server: Registry, run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = BasicRegistry()
    run(asking)
    for host, words in ((server.host, "no credentials were checked"), (asking.host, f"logged in to {asking.host}")):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(SECRET.encode())))
        argv = ["login", host, "--username", USER, "--password-stdin", "--plain-http"]
        assert main(argv) == 0
        out = capsys.readouterr().out
        assert out.startswith(words)
        assert ("no credentials" in out) != ("logged in" in out)
