# SPDX-License-Identifier: Apache-2.0
"""Registries on this machine that speak TLS, as those of kind and k3d and forwarded ports do, and those that do not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ocibridge
from ocibridge.cli.main import main
from ocibridge.oci import RegistryReference
from ocibridge.stores.registry import Hosts, RegistryStore, login

from ..registry import TLS, RegistryServer
from ..stores.registry.fault_server import Reply
from .conftest import Run, without_a_proxy
from .moves import OPTIONS, Moves
from .tls import Answer, Listening, TlsRegistry, as_go, as_nginx, as_openssl, closing, resetting
from .tokens import BASIC, SECRET, USER

pytestmark = without_a_proxy  # a host that only a proxy can reach is none of this machine
GUESSED = replace(OPTIONS, plain_http=None)
ANSWERS = (as_go, as_nginx, as_openssl, closing, resetting)
CLIENT = {"cert_file": TLS / "client.pem", "key_file": TLS / "client.key"}
EVER = 1000


@pytest.fixture
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine trusts the authority of the tests."""
    monkeypatch.setenv("SSL_CERT_FILE", str(TLS / "ca.pem"))


@pytest.fixture
def guessing(moves: Moves) -> Moves:
    return replace(moves, options=GUESSED)


@pytest.fixture
def plain(run: Run) -> Iterator[Listening]:
    with Listening() as running:
        yield running


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("answer", ANSWERS)
def test_that_a_registry_speaks_tls_is_found_out(
    answer: Answer, name: str, trusting: None, guessing: Moves, run: Run
) -> None:
    registry = TlsRegistry(answer, name)
    run(registry)
    guessing.push(registry.host)
    # One request of each command goes out plain, and it is the only one.
    assert registry.plain == 1
    guessing.pull(registry.host)
    assert registry.plain == 2


def test_that_a_real_registry_speaks_tls_is_found_out(
    trusting: None, guessing: Moves, repository: str, tls_registry: RegistryServer
) -> None:
    here = replace(guessing, name=repository)
    here.push(tls_registry.host)
    here.pull(tls_registry.host)


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_certificate_that_is_not_trusted_is_named_with_what_to_do(answer: Answer, guessing: Moves, run: Run) -> None:
    registry = TlsRegistry(answer)
    run(registry)
    words = f"TLS certificate of {registry.host} is not trusted.*--ca-file.*--insecure"
    guessing.push_fails(registry.host, words, ocibridge.NetworkError)
    guessing.pull_fails(registry.host, words, ocibridge.NetworkError)
    # Whoever asks by TLS without trust only looks whether there is TLS.
    assert {seen.path for seen in registry.seen} <= {"/v2/"}


@pytest.mark.parametrize("answer", [as_go, resetting])
@pytest.mark.parametrize(
    "options",
    [{"insecure": True}, {"ca_file": TLS / "ca.pem"}, {"ca_file": TLS / "ca.pem", **CLIENT}, {"plain_http": False}],
    ids=["insecure", "ca_file", "cert_file", "no-plain-http"],
)
def test_an_option_for_tls_means_tls_at_once(
    options: dict[str, Any], answer: Answer, trusting: None, guessing: Moves, run: Run
) -> None:
    registry = TlsRegistry(answer, wants_certificate="cert_file" in options)
    run(registry)
    guessing.push(registry.host, options=options)
    guessing.pull(registry.host, options=options)
    assert (registry.plain, bool(registry.tls)) == (0, True)


def test_a_client_certificate_alone_means_tls_at_once(trusting: None, guessing: Moves, run: Run) -> None:
    registry = TlsRegistry(as_go, wants_certificate=True)
    run(registry)
    guessing.push(registry.host, options=CLIENT)
    assert registry.plain == 0


def test_threads_that_ask_at_the_same_time_all_find_out(trusting: None, run: Run) -> None:
    registry = TlsRegistry(as_go)
    run(registry)
    together = threading.Barrier(4)

    def look(hosts: Hosts, number: int) -> object:
        with RegistryStore(RegistryReference(registry.host, f"r{number}", "v1"), GUESSED, hosts) as store:
            together.wait(5)
            return store.head("v1")

    for _ in range(5):
        with Hosts() as hosts, ThreadPoolExecutor(4) as pool:
            assert list(pool.map(look, [hosts] * 4, range(4))) == [None] * 4


def test_a_login_reaches_a_registry_by_tls_alone(trusting: None, run: Run, isolated: Path) -> None:
    registry = TlsRegistry(as_go)
    run(registry)
    asks = Reply(401, headers={"WWW-Authenticate": 'Basic realm="r"'})
    registry.fault("GET", "/v2/", refuse=asks, times=EVER, when=lambda seen: seen.authorization != BASIC)
    login(registry.host, USER, SECRET, GUESSED)
    assert registry.plain == 1
    assert registry.seen[-1].authorization == BASIC


def test_a_command_finds_out_too(moves: Moves, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    registry = TlsRegistry(closing)
    run(registry)
    argv = ["push", "-q", str(moves.model), moves.place(registry.host)]
    assert main(argv) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "--ca-file" in err
    assert "--insecure" in err
    assert main([*argv, "--ca-file", str(TLS / "ca.pem")]) == 0
    assert main(["pull", "-q", moves.place(registry.host), str(moves.folder / "back"), "--insecure"]) == 0


def test_a_plain_registry_is_asked_nothing_more_than_it_has_to_be(guessing: Moves, plain: Listening) -> None:
    guessing.push(plain.host, cache=False)
    guessing.pull(plain.host)
    asked = sorted((seen.method, seen.path.partition("/uploads/")[0]) for seen in plain.seen)
    plain.seen.clear()
    told = replace(guessing, tag="v1", name="models/other")
    told.push(plain.host, cache=False, options={"plain_http": True})
    told.pull(plain.host, options={"plain_http": True})
    again = [(seen.method, seen.path.replace("/other/", "/digits/").partition("/uploads/")[0]) for seen in plain.seen]
    assert asked == sorted(again)
    assert plain.tls == 0


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT"])
def test_a_400_of_a_plain_registry_is_an_error_of_its_own(method: str, guessing: Moves, plain: Listening) -> None:
    plain.fault(method, "/v2/", lambda seen, true: Reply(400), times=EVER)
    words = "pulling the manifest" if method == "GET" else "status 400"
    if method == "GET":
        guessing.pull_fails(plain.host, f"{words} v1 failed with status 400")
    else:
        guessing.push_fails(plain.host, words)
    # Only where it is the very first response may it be one to a request that should have come by TLS.
    assert plain.tls <= 2 * (method in ("GET", "HEAD"))


@pytest.mark.parametrize("reply", [Reply(0), Reply(400)], ids=["broken", "400"])
def test_a_plain_registry_that_begins_badly_is_asked_plainly_again(
    reply: Reply, guessing: Moves, plain: Listening
) -> None:
    plain.fault("GET|HEAD", "/v2/", lambda seen, true: reply, times=1)
    if reply.status:
        guessing.pull_fails(plain.host, "status 400|MANIFEST_UNKNOWN")
    guessing.push(plain.host)
    guessing.pull(plain.host)


def test_a_plain_registry_that_is_told_to_speak_tls_says_so(guessing: Moves, plain: Listening) -> None:
    guessing.push_fails(
        plain.host, "no TLS connection.*--plain-http", ocibridge.NetworkError, options={"insecure": True}
    )
    assert not plain.seen


def test_tls_that_is_forbidden_is_not_spoken(moves: Moves, run: Run) -> None:
    registry = TlsRegistry(as_go)
    run(registry)
    moves.push_fails(registry.host, "status 400.*--no-plain-http", options={"plain_http": True})
    assert registry.tls == 0
