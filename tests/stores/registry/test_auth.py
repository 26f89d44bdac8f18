# SPDX-License-Identifier: Apache-2.0
"""Challenges, tokens, and where they may go."""

from __future__ import annotations

import base64
import json
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from ocibridge.errors import AuthenticationError, OcibridgeError, StoreError
from ocibridge.stores.registry import RegistryOptions, RegistryStore, login
from ocibridge.stores.registry.auth import merge_scopes, parse_challenges
from ocibridge.stores.registry.options import base_url
from tests.registry import TLS

from .conftest import MakeStore
from .fault_server import FaultServer, Reply, Seen

MANIFEST = b'{"schemaVersion":2}'
SECRET = "geheim-42"
BASIC = "Basic " + base64.b64encode(f"u:{SECRET}".encode()).decode()


@pytest.fixture
def tls_server() -> Iterator[FaultServer]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "server.pem", TLS / "server.key")
    context.load_verify_locations(TLS / "ca.pem")
    context.verify_mode = ssl.CERT_OPTIONAL
    with FaultServer(tls=context) as running:
        yield running


def guard(server: FaultServer, repository: str = "r", realm: str | None = None) -> None:
    """Manifests of a repository only for tokens that the token server has given for it."""

    def token(seen: Seen) -> Reply:
        scopes = parse_qs(urlsplit(seen.path).query or seen.body.decode()).get("scope", [])
        return Reply(200, json.dumps({"access_token": "for " + " ".join(scopes), "expires_in": 300}).encode())

    def manifest(seen: Seen) -> Reply:
        if seen.authorization == f"Bearer for repository:{repository}:pull":
            return Reply(200, MANIFEST)
        challenge = (
            f'bearer realm="{realm or server.url + "/token"}",service="a, b",scope="repository:{repository}:pull"'
        )
        return Reply(401, headers={"WWW-Authenticate": challenge})

    server.on("GET", "/token", token)
    server.on("POST", "/token", token)
    server.on("GET", f"/v2/{repository}/manifests/v1", manifest)


def write_config(home: Path, document: object) -> None:
    (home / ".docker").mkdir(exist_ok=True)
    (home / ".docker" / "config.json").write_text(json.dumps(document))


def test_anonymous_token(server: FaultServer, store: RegistryStore) -> None:
    guard(server)
    for _ in range(3):
        store.fetch_manifest("v1")
    (asked,) = server.requests("GET", "/token")
    assert parse_qs(urlsplit(asked.path).query) == {"service": ["a, b"], "scope": ["repository:r:pull"]}
    assert asked.authorization is None


def test_every_repository_has_its_own_token(server: FaultServer, make_store: MakeStore) -> None:
    guard(server, "a")
    guard(server, "b/c")
    for name in ("a", "b/c", "a"):
        make_store(name).fetch_manifest("v1")
    assert len(server.requests("GET", "/token")) == 2


def test_user_and_password_go_to_the_realm_only(server: FaultServer, other: FaultServer, make_store: MakeStore) -> None:
    guard(server, realm=f"{other.url}/token")
    guard(other)
    make_store(username="u", password=SECRET).fetch_manifest("v1")
    assert [seen.authorization for seen in other.seen] == [BASIC]
    assert all(seen.authorization != BASIC for seen in server.seen)


def test_identity_token(server: FaultServer, store: RegistryStore, isolated: Path) -> None:
    write_config(isolated, {"auths": {server.host: {"identitytoken": SECRET}}})
    guard(server)
    store.fetch_manifest("v1")
    (asked,) = server.requests("POST", "/token")
    form = parse_qs(asked.body.decode())
    assert form["grant_type"] == ["refresh_token"]
    assert form["refresh_token"] == [SECRET]
    assert form["client_id"] == ["ocibridge"]


def test_registry_token(server: FaultServer, store: RegistryStore, isolated: Path) -> None:
    write_config(isolated, {"auths": {server.host: {"registrytoken": "for repository:r:pull"}}})
    guard(server)
    store.fetch_manifest("v1")
    assert not server.requests("GET", "/token")


def test_basic_challenge_among_others(server: FaultServer, make_store: MakeStore) -> None:
    challenge = Reply(401, headers={"WWW-Authenticate": 'Negotiate abc==, BASIC realm="x, y", charset="UTF-8"'})
    server.on("GET", "/v2/r/manifests/v1", challenge, Reply(200, MANIFEST))
    store = make_store(username="u", password=SECRET)
    store.fetch_manifest("v1")
    store.fetch_manifest("v1")
    assert [seen.authorization for seen in server.seen] == [None, BASIC, BASIC]


@pytest.mark.parametrize("challenge", ["", "Bearer", 'Bearer realm=""', "Digest realm=x", 'Bearer realm="ftp://x/"'])
def test_challenges_that_cannot_be_answered(server: FaultServer, make_store: MakeStore, challenge: str) -> None:
    server.on("GET", "/v2/r/manifests/v1", Reply(401, headers={"WWW-Authenticate": challenge}))
    with pytest.raises(StoreError) as caught:
        make_store(username="u", password=SECRET).fetch_manifest("v1")
    assert SECRET not in str(caught.value)
    assert len(server.seen) == 1


@pytest.mark.parametrize("body", [b"", b"x", b"[]", b"{}", b'{"token":7}', b'{"token":"a\\nb"}', b'{"token":""}'])
def test_token_server_without_tokens(server: FaultServer, store: RegistryStore, body: bytes) -> None:
    guard(server)
    server.on("GET", "/token", Reply(200, body))
    with pytest.raises(StoreError, match="gave no token"):
        store.fetch_manifest("v1")


@pytest.mark.parametrize(("given", "word"), [({"username": "u", "password": SECRET}, "were given"), ({}, "run '")])
def test_the_next_step_depends_on_where_the_credentials_are_from(
    given: dict[str, str], word: str, server: FaultServer, make_store: MakeStore
) -> None:
    server.on("GET", "/v2/r/manifests/v1", Reply(401, headers={"WWW-Authenticate": 'Basic realm="x"'}))
    with pytest.raises(AuthenticationError) as caught:
        make_store(**given).fetch_manifest("v1")
    hint = caught.value.hint or ""
    assert word in hint
    assert f"ocibridge login {server.host}" in hint
    assert ("given" in hint) == bool(given)


def test_wrong_password_is_not_tried_again(server: FaultServer, make_store: MakeStore) -> None:
    guard(server)
    server.on("GET", "/token", Reply(401))
    with pytest.raises(AuthenticationError, match=f"refused the credentials.*ocibridge login {server.host}"):
        make_store(username="u", password=SECRET).fetch_manifest("v1")
    assert len(server.seen) == 2


def test_token_server_is_asked_again_after_a_failure(server: FaultServer, store: RegistryStore) -> None:
    guard(server)
    server.on("GET", "/token", Reply(503), Reply(200, b'{"token":"for repository:r:pull"}'))
    store.fetch_manifest("v1")


def test_endless_refusal_body(server: FaultServer, store: RegistryStore) -> None:
    server.on("GET", "/v2/r/manifests/v1", Reply(401, b"x" * 1_000_000))
    with pytest.raises(AuthenticationError):
        store.fetch_manifest("v1")


def test_secrets_are_not_repeated_in_errors(server: FaultServer, make_store: MakeStore) -> None:
    def echo(seen: Seen) -> Reply:
        text = f"no: {seen.authorization} {SECRET} \x1b[31m"
        return Reply(403, json.dumps({"errors": [{"code": "DENIED", "message": text}]}).encode())

    server.on("GET", "/v2/r/manifests/v1", Reply(401, headers={"WWW-Authenticate": "Basic realm=x"}), echo)
    with pytest.raises(AuthenticationError, match="DENIED") as caught:
        make_store(username="u", password=SECRET).fetch_manifest("v1")
    for part in (SECRET, BASIC.split()[1], "\x1b"):
        assert part not in str(caught.value) + repr(caught.value)


def test_tls_is_never_left(tls_server: FaultServer, server: FaultServer, make_store: MakeStore) -> None:
    options = {"plain_http": False, "ca_file": TLS / "ca.pem", "username": "u", "password": SECRET}
    store = make_store(host=tls_server.host, **options)
    tls_server.on("GET", "/v2/r/manifests/v1", Reply(302, headers={"Location": f"{server.url}/x"}))
    with pytest.raises(StoreError, match="without encryption"):
        store.fetch_manifest("v1")
    tls_server.on("POST", "/v2/r/blobs/uploads/", Reply(202, headers={"Location": f"{server.url}/x"}))
    guard(tls_server, realm=f"{server.url}/token")
    with pytest.raises(StoreError, match="no token server that credentials can safely be sent to"):
        store.fetch_manifest("v1")
    assert not server.seen


def test_client_certificate(tls_server: FaultServer, make_store: MakeStore) -> None:
    tls_server.on("GET", "/v2/r/manifests/v1", Reply(200, MANIFEST))
    files = {"ca_file": TLS / "ca.pem", "cert_file": TLS / "client.pem", "key_file": TLS / "client.key"}
    assert make_store(host=tls_server.host, plain_http=False, **files).fetch_manifest("v1")[1] == MANIFEST


def test_login_through_a_token_server(server: FaultServer, isolated: Path) -> None:
    bearer = {"WWW-Authenticate": f'Bearer realm="{server.url}/token",service="s"'}
    server.on("GET", "/v2/", Reply(401, headers=bearer), Reply(200))
    server.on("GET", "/token", lambda seen: Reply(200, b'{"token":"t"}') if seen.authorization == BASIC else Reply(401))
    login(server.host, "u", SECRET, RegistryOptions(registry_config=isolated / "c.json"))
    stored = json.loads((isolated / "c.json").read_text())
    assert stored["auths"][server.host]["auth"] == BASIC.split()[1]
    server.on("GET", "/v2/", Reply(401, headers=bearer), Reply(200))
    with pytest.raises(AuthenticationError, match="refused the login of 'u'"):
        login(server.host, "u", "wrong")


def test_malformed_credentials_are_named(server: FaultServer, store: RegistryStore, isolated: Path) -> None:
    guard(server)
    (isolated / ".docker").mkdir()
    (isolated / ".docker" / "config.json").write_text(f'{{"auths": {SECRET}')
    with pytest.raises(OcibridgeError, match=r"config.json is not valid JSON") as caught:
        store.fetch_manifest("v1")
    assert SECRET not in str(caught.value)


def test_parse_challenges() -> None:
    assert parse_challenges(['a b="c\\"d", e=f , G  h = i', "x", 'a z="2"']) == {
        "a": {"b": 'c"d', "e": "f"},
        "g": {"h": "i"},
        "x": {},
    }
    assert parse_challenges(["", ",,,", '"', "="]) == {}


def test_merge_scopes() -> None:
    assert merge_scopes(["repository:b:pull", "repository:a:push", "repository:b:push,pull", "odd"]) == [
        "odd",
        "repository:a:push",
        "repository:b:pull,push",
    ]


@pytest.mark.parametrize(
    ("host", "plain", "expected"),
    [
        ("docker.io", None, "https://registry-1.docker.io"),
        ("ghcr.io", None, "https://ghcr.io"),
        ("ghcr.io", True, "http://ghcr.io"),
        ("localhost:5000", None, "http://localhost:5000"),
        ("127.8.8.8", None, "http://127.8.8.8"),
        ("[::1]:5000", None, "http://[::1]:5000"),
        ("localhost:5000", False, "https://localhost:5000"),
        ("localhost.example.org", None, "https://localhost.example.org"),
    ],
)
def test_base_url(host: str, plain: bool | None, expected: str) -> None:
    assert base_url(host, RegistryOptions(plain_http=plain)) == expected


def test_threads_share_one_token(server: FaultServer, store: RegistryStore) -> None:
    guard(server)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: store.fetch_manifest("v1")[1], range(40)))
    assert found == [MANIFEST] * 40
    assert len(server.requests("GET", "/token")) == 1


def test_token_that_has_run_out_is_renewed_before_it_is_used(
    server: FaultServer, store: RegistryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard(server)
    store.fetch_manifest("v1")
    now = time.monotonic()
    monkeypatch.setattr("ocibridge.stores.registry.auth.time.monotonic", lambda: now + 3600)
    store.fetch_manifest("v1")
    assert len(server.requests("GET", "/token")) == 2
    assert len(server.requests("GET", "/v2/r/manifests/v1")) <= 4
