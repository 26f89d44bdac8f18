# SPDX-License-Identifier: Apache-2.0
"""Tokens that last for a few requests only, are revoked, refused or late, with several threads that use them."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ocibridge
from ocibridge.oci import RegistryReference
from ocibridge.stores.registry import Hosts, RegistryStore

from ..formats.build import carton
from ..stores.registry.fault_server import Reply, Seen
from .moves import NAME, OPTIONS, Moves, weight
from .quirks import error
from .server import Act
from .test_credentials import LOGIN
from .test_credentials import tokens as tokens
from .tokens import BearerRegistry, TokenServer

EVER = 1000
UPLOADS = "/blobs/uploads/"
FOUR: dict[str, Any] = {"concurrency": 4, "options": LOGIN}
LONGEST = 300_000
TOO_LONG = Reply(413, headers={"Connection": "close"})
OLD = f"sha256:{hashlib.sha256(b'{}').hexdigest()}"


class Revoking(BearerRegistry):
    """Revokes every token that it knows, before it reads the body of an upload.

    Attributes:
        revokes: The uploads, of those with a good token and counted from the first, that it does so for.
        revoked: How often it has.
    """

    revokes: tuple[int, ...] = ()

    def __init__(self, tokens: TokenServer) -> None:
        super().__init__()
        self.realm = f"{tokens.url}/token"
        self.revoked = 0
        self._tokens = tokens
        self._puts = 0
        self._good_from = 1

    def revoke(self) -> None:
        self.revoked += 1
        self._good_from = self._tokens.given + 1

    def refuse(self, seen: Seen) -> Reply | None:
        found = self._refuse_token(seen)
        if found is None and seen.method == "PUT" and UPLOADS in seen.path:
            self._puts += 1
            if self._puts in self.revokes:
                self.revoke()
                found = self._refuse_token(seen)
        return found and replace(found, headers={**found.headers, "Connection": "close"})

    def _refuse_token(self, seen: Seen) -> Reply | None:
        number = (seen.authorization or "").removeprefix("Bearer t").partition("|")[0]
        if number and int(number) < self._good_from:
            seen = replace(seen, headers={**seen.headers, "authorization": "revoked"})
        return super().refuse(seen)

    @property
    def sessions(self) -> int:
        """How many uploads were started."""
        return int(repr(self._numbers).removeprefix("count(").removesuffix(")"))


@pytest.fixture
def registry(tokens: TokenServer) -> Iterator[Revoking]:
    """A registry with tokens of another host, that has something already: uploads need no guess at what is there."""
    with Revoking(tokens) as running:
        running.manifests[NAME, OLD] = (b"{}", "x")
        running.tags[NAME, "old"] = OLD
        yield running


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A carton of many files, each of which becomes a layer."""
    files = {f"model/part-{number:02}.bin": weight(20_000 + number) for number in range(24)}
    return carton(tmp_path_factory.mktemp("many") / "many.carton", files)


@pytest.fixture
def here(moves: Moves, many: Path) -> Moves:
    return replace(moves, model=many)


@pytest.mark.parametrize("life", [2, 3])
def test_four_threads_share_tokens_that_are_good_for_a_few_requests(
    life: int, registry: Revoking, tokens: TokenServer, here: Moves
) -> None:
    registry.life = life
    here.push(registry.host, **FOUR)
    assert not registry.uploads
    assert registry.sessions == len(registry.blobs) > 20
    here.pull(registry.host, **FOUR)
    done = sum(min(uses, life) for uses in registry._uses.values())
    # Every request that was answered may have needed a token of its own, but no more than that.
    assert done / life <= tokens.given <= done
    assert {seen.authorization is None or seen.authorization.startswith("Bearer t") for seen in registry.seen} == {True}


def test_tokens_that_are_revoked_before_the_body_of_an_upload_is_read(
    registry: Revoking, tokens: TokenServer, here: Moves
) -> None:
    """One 401 in the middle of a push costs one new token for each scope, not one for each thread or request."""
    registry.revokes = (4, 8, 12, 16)
    here.push(registry.host, **FOUR)
    assert registry.revoked == 4
    assert registry.sessions == len(registry.blobs)
    assert not registry.uploads
    scopes = 2
    assert tokens.given <= scopes * (registry.revoked + 1)
    here.pull(registry.host, **FOUR)


def test_an_upload_goes_on_where_it_was_when_its_token_ran_out(
    registry: Revoking, tokens: TokenServer, moves: Moves
) -> None:
    """Chunks that break, and tokens for two requests: the session stays, and no byte that is kept goes twice."""
    registry.life, registry.keeps_interrupted = 2, True
    registry.fault("PUT|PATCH", UPLOADS, refuse=TOO_LONG, times=EVER, when=lambda seen: _length(seen) > LONGEST)
    broken = registry.fault("PATCH", UPLOADS, take=100_000, times=3, when=lambda seen: seen.authorization is not None)
    moves.push(registry.host, **FOUR)
    assert broken.done == 3
    chunks = [seen for seen in registry.requests("PATCH") if seen.body]
    size = max(len(data) for data in registry.blobs.values())
    assert size <= sum(len(seen.body) for seen in chunks) <= size + 3 * 100_000
    # 413 costs one session for each size that is tried.
    assert registry.sessions <= len(registry.blobs) + 2
    assert not registry.uploads
    moves.pull(registry.host, **FOUR)


@pytest.mark.parametrize("life", [2, 1 << 30])
def test_what_is_cancelled_at_the_end_is_cancelled_with_a_good_token(
    life: int, registry: Revoking, tokens: TokenServer, here: Moves
) -> None:
    registry.life = life

    def refuse(seen: Seen, true: Callable[[], Reply]) -> Reply:
        if not registry.revoked:
            registry.revoke()
        return error(400, "BLOB_UPLOAD_INVALID")

    registry.fault("PUT", UPLOADS, refuse, after=8, times=EVER, when=lambda seen: seen.authorization is not None)
    here.push_fails(registry.host, "BLOB_UPLOAD_INVALID", **FOUR)
    assert registry.revoked
    assert registry.sessions > len(registry.blobs)
    assert not registry.uploads
    assert [tag for _, tag in registry.tags] == ["old"]


def test_wrong_credentials_end_at_once(registry: Revoking, tokens: TokenServer, here: Moves) -> None:
    wrong = {"username": "tester", "password": "guess-99"}
    words = "refused the credentials"
    here.push_fails(registry.host, words, ocibridge.AuthenticationError, concurrency=4, options=wrong)
    assert len(tokens.seen) + len(registry.seen) <= 24
    assert not tokens.given


def test_tokens_that_are_never_good_end_at_once(registry: Revoking, tokens: TokenServer, here: Moves) -> None:
    """A token server that gives whatever it is asked for, and a registry that takes none of it."""
    registry.life = 0
    here.push_fails(registry.host, "status 401.*login", ocibridge.AuthenticationError, **FOUR)
    assert len(tokens.seen) + len(registry.seen) <= 40


def test_tokens_that_are_good_for_reading_alone_end_at_once(
    registry: Revoking, tokens: TokenServer, here: Moves
) -> None:
    refusal = replace(
        error(401, "UNAUTHORIZED"), headers={"WWW-Authenticate": f'Bearer realm="{registry.realm}",service="registry"'}
    )
    registry.fault("POST|PUT|PATCH", "", refuse=refusal, times=EVER)
    here.push_fails(registry.host, "status 401.*login", ocibridge.AuthenticationError, **FOUR)
    assert len(tokens.seen) + len(registry.requests("POST")) <= 40
    assert not registry.blobs


def hanging(waits: threading.Event, asked: threading.Event) -> Act:
    def act(seen: Seen, true: Callable[[], Reply]) -> Reply:
        asked.set()
        waits.wait(10)
        return true()

    return act


@pytest.mark.timeout(30)
def test_a_token_that_takes_long_for_one_repository_keeps_no_other_waiting(
    registry: Revoking, tokens: TokenServer
) -> None:
    waits, asked = threading.Event(), threading.Event()
    tokens.fault("GET", "/token", hanging(waits, asked), times=EVER, when=lambda seen: "slow" in seen.path)
    options = replace(OPTIONS, **LOGIN, timeouts=replace(OPTIONS.timeouts, read=10))  # type: ignore[arg-type]

    def look(hosts: Hosts, name: str) -> object:
        with RegistryStore(RegistryReference(registry.host, name, "v1"), options, hosts) as store:
            return store.head("v1")

    with Hosts() as hosts, ThreadPoolExecutor(2) as pool:
        try:
            slow = pool.submit(look, hosts, "models/slow")
            assert asked.wait(5)
            assert pool.submit(look, hosts, "models/quick").result(5) is None
            assert not slow.done()
        finally:
            waits.set()
        assert slow.result(10) is None


def _length(seen: Seen) -> int:
    return int(seen.headers.get("content-length", "0"))
