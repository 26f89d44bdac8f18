# SPDX-License-Identifier: Apache-2.0
"""Who is told a secret: the registry and its token server, and nobody else, whatever happens in between."""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import ocibridge
from ocibridge.stores.registry import login

from ..stores.registry.fault_server import Reply, Seen
from .conftest import Run
from .moves import NAME, Moves, no_leak
from .quirks import Storage
from .server import Pieces
from .tokens import BASIC, SECRET, USER, BasicRegistry, BearerRegistry, TokenServer

LOGIN = {"username": USER, "password": SECRET}
EVER = 1000


@pytest.fixture
def tokens(run: Run) -> TokenServer:
    server = TokenServer()
    run(server)
    return server


@pytest.fixture
def bearer(run: Run, tokens: TokenServer) -> BearerRegistry:
    """A registry with tokens of another host, and its blobs on a third."""
    registry = BearerRegistry()
    registry.realm = f"{tokens.url}/token"
    registry.storage = Storage(registry)
    run(registry)
    run(registry.storage)
    return registry


def only_where_it_belongs(registry: BearerRegistry, tokens: TokenServer) -> None:
    """The registry has seen tokens only, the token server the password only, the storage nothing."""
    assert {seen.authorization for seen in tokens.seen} <= {BASIC, None}
    assert all(seen.authorization is None or seen.authorization.startswith("Bearer t") for seen in registry.seen)
    assert registry.storage is not None
    no_leak(registry.storage)


def test_basic(moves: Moves, run: Run) -> None:
    registry = BasicRegistry()
    registry.storage = Storage(registry)
    run(registry)
    run(registry.storage)
    moves.push(registry.host, options=LOGIN)
    moves.pull(registry.host, options=LOGIN)
    assert {seen.authorization for seen in registry.seen} == {None, BASIC}
    assert registry.storage.requests("GET")
    no_leak(registry.storage)


def test_bearer(bearer: BearerRegistry, tokens: TokenServer, moves: Moves) -> None:
    moves.push(bearer.host, options=LOGIN)
    moves.pull(bearer.host, options=LOGIN)
    asked = {seen.path.partition("scope=")[2] for seen in tokens.seen}
    assert asked == {f"repository%3A{NAME.replace('/', '%2F')}%3A{actions}" for actions in ("pull", "pull%2Cpush")}
    only_where_it_belongs(bearer, tokens)


@pytest.mark.parametrize("life", [1, 2, 3])
def test_tokens_that_expire_in_the_middle(life: int, bearer: BearerRegistry, tokens: TokenServer, moves: Moves) -> None:
    """401 at any request, with a body or without, whatever the token server had promised."""
    bearer.life = life
    moves.push(bearer.host, options=LOGIN, concurrency=1)
    moves.pull(bearer.host, options=LOGIN, concurrency=1)
    assert tokens.given > 3
    only_where_it_belongs(bearer, tokens)


def test_a_token_that_expires_while_a_download_is_taken_up_again(
    bearer: BearerRegistry, tokens: TokenServer, moves: Moves
) -> None:
    bearer.storage = None
    moves.push(bearer.host, options=LOGIN)
    bearer.storage = Storage(bearer)
    with bearer.storage as storage:
        storage.fault("GET", "", lambda seen, true: replace(true(), cut=200_000), times=3)
        bearer.life = 1
        moves.pull(bearer.host, options=LOGIN, concurrency=1)
        only_where_it_belongs(bearer, tokens)


def test_tokens_that_are_never_good(bearer: BearerRegistry, tokens: TokenServer, moves: Moves) -> None:
    bearer.life = 0
    moves.push_fails(bearer.host, "401.*login", ocibridge.AuthenticationError, options=LOGIN)
    assert not bearer.tags


def test_wrong_password(bearer: BearerRegistry, tokens: TokenServer, moves: Moves) -> None:
    wrong = {"username": USER, "password": "guess-99"}
    error = moves.push_fails(bearer.host, "refused the credentials", ocibridge.AuthenticationError, options=wrong)
    assert "guess-99" not in str(error)
    asked = len(tokens.seen)
    moves.push_fails(bearer.host, "refused us without credentials", ocibridge.AuthenticationError)
    assert asked <= 5  # once for the question whether the repository is new, and for each request that follows at once
    assert not bearer.tags


def test_refresh_token(bearer: BearerRegistry, tokens: TokenServer, moves: Moves, isolated: Path) -> None:
    (isolated / ".docker").mkdir()
    config = {"auths": {bearer.host: {"identitytoken": tokens.refresh_token}}}
    (isolated / ".docker" / "config.json").write_text(json.dumps(config))
    bearer.life = 4
    moves.push(bearer.host, concurrency=1)
    moves.pull(bearer.host, concurrency=1)
    assert {seen.method for seen in tokens.seen} == {"POST"}
    assert all(tokens.refresh_token not in str(seen) for seen in bearer.seen)
    only_where_it_belongs(bearer, tokens)


def test_credential_helper(
    bearer: BearerRegistry, tokens: TokenServer, moves: Moves, isolated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = isolated / "bin"
    programs.mkdir()
    helper = programs / "docker-credential-vault"
    helper.write_text(
        f"#!{sys.executable}\nimport json, sys\nassert sys.argv[1] == 'get'\n"
        f"host = sys.stdin.read().strip()\nassert host == {bearer.host!r}, host\n"
        f"print(json.dumps({{'ServerURL': host, 'Username': {USER!r}, 'Secret': {SECRET!r}}}))\n"
    )
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    (isolated / ".docker").mkdir()
    (isolated / ".docker" / "config.json").write_text(json.dumps({"credHelpers": {bearer.host: "vault"}}))
    moves.push(bearer.host)
    moves.pull(bearer.host)
    only_where_it_belongs(bearer, tokens)


def test_an_upload_on_another_host(bearer: BearerRegistry, tokens: TokenServer, moves: Moves) -> None:
    storage = bearer.storage
    assert storage is not None

    def elsewhere(seen: Seen, true: Callable[[], Reply]) -> Reply:
        session = true().headers["Location"].partition("?")[0].rpartition("/")[2]
        return Reply(202, headers={"Location": storage.address(NAME, session)})

    bearer.fault("POST", "/uploads/", elsewhere, times=EVER, when=lambda seen: seen.authorization is not None)
    moves.push(bearer.host, options=LOGIN)
    moves.pull(bearer.host, options=LOGIN)
    assert storage.requests("PUT")
    only_where_it_belongs(bearer, tokens)


@pytest.mark.parametrize("realm", ["", "ftp://127.0.0.1/token", "http://u:p@127.0.0.1/token", "nonsense", "http://[x/"])
def test_realms_that_are_none(realm: str, bearer: BearerRegistry, tokens: TokenServer, moves: Moves) -> None:
    bearer.realm = realm
    unknown = "x has no address|token failed with status 502"  # which is how a proxy says that
    moves.push_fails(
        bearer.host, f"no token server that credentials can safely be sent to|401|{unknown}", options=LOGIN
    )
    assert not tokens.seen
    assert not bearer.tags


def test_a_token_server_that_sends_us_elsewhere(
    bearer: BearerRegistry, tokens: TokenServer, moves: Moves, run: Run
) -> None:
    """The password goes to the realm that the registry names, not to where that leads."""
    thief = TokenServer()
    run(thief)
    tokens.fault("GET", "/token", lambda s, t: Reply(307, headers={"Location": f"{thief.url}{s.path}"}), times=EVER)
    moves.push_fails(bearer.host, "status 307", options=LOGIN)
    assert not thief.seen


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 0])
def test_a_token_server_with_problems(status: int, bearer: BearerRegistry, tokens: TokenServer, moves: Moves) -> None:
    tokens.fault("GET", "/token", lambda seen, true: Reply(status), times=2)
    moves.push(bearer.host, options=LOGIN)
    moves.pull(bearer.host, options=LOGIN)


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(503), "status 503"),
        (Reply(200, b"{}"), "gave no token"),
        (Reply(200, b'{"token":"a\\r\\nX: y"}'), "gave no token"),
        (Reply(429, headers={"Retry-After": "7200"}), "asks to wait 7200"),
        (Pieces(200, pieces=lambda: itertools.repeat(b"x" * 65536)), "larger than"),
        (Reply(0), "broke the connection"),
    ],
    ids=["503", "empty", "injection", "patience", "endless", "silent"],
)
def test_a_token_server_that_stays_broken(
    reply: Reply, words: str, bearer: BearerRegistry, tokens: TokenServer, moves: Moves
) -> None:
    tokens.fault("GET", "/token", lambda seen, true: reply, times=EVER)
    moves.push_fails(bearer.host, words, ocibridge.OcibridgeError, options=LOGIN)
    assert not bearer.tags


def test_a_registry_that_repeats_secrets(bearer: BearerRegistry, tokens: TokenServer, moves: Moves) -> None:
    def echo(seen: Seen, true: Callable[[], Reply]) -> Reply:
        text = f"{seen.authorization} and {SECRET}"
        return Reply(403, json.dumps({"errors": [{"code": "DENIED", "message": text}]}).encode())

    bearer.fault("PUT", "/manifests/", echo, times=EVER, when=lambda seen: seen.authorization is not None)
    moves.push_fails(bearer.host, r"DENIED: Bearer \*\*\* and", options=LOGIN)


def test_every_repository_has_a_token_of_its_own(bearer: BearerRegistry, tokens: TokenServer, moves: Moves) -> None:
    """A mount needs one for both places; a token for one of them is refused by the other."""
    moves.push(bearer.host, options=LOGIN)
    there = Moves(moves.model, moves.folder, moves.options, name="models/copy")
    report = there.push(bearer.host, options=LOGIN, mount_from=[NAME])
    assert {layer.action for layer in report.layers} == {"mounted"}
    there.pull(bearer.host, options=LOGIN)
    only_where_it_belongs(bearer, tokens)


def test_login_over_a_bad_day(bearer: BearerRegistry, tokens: TokenServer, moves: Moves, run: Run) -> None:
    registry = BasicRegistry()
    run(registry)
    registry.fault("GET", "/v2/", refuse=Reply(503), times=1)
    login(registry.host, USER, SECRET, moves.options)
    moves.push(registry.host)
