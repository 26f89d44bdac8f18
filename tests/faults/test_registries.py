# SPDX-License-Identifier: Apache-2.0
"""Every registry that is known to be different: there and back, whole and in chunks."""

from __future__ import annotations

from pathlib import Path

import pytest

import ocibridge
from ocibridge.oci import parse_reference
from ocibridge.settings import MiB
from ocibridge.stores.opening import open_store

from ..proxies import HttpProxy
from ..stores.registry.fault_server import Reply
from .conftest import Run
from .moves import NAME, Moves, make_model, no_leak
from .quirks import NAMED, Ecr, Ghcr, GoogleAr, Harbor, Quay, Redirecting, Registry, Storage, Zot
from .tokens import DockerHub, TokenServer


def with_storage(registry: Registry, run: Run) -> list[Storage]:
    if not isinstance(registry, Redirecting):
        return []
    registry.storage = Storage(registry)
    run(registry.storage)
    return [registry.storage]


@pytest.mark.parametrize("kind", NAMED, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("layers", ["tar", "raw-files"])
def test_there_and_back(kind: type[Registry], layers: str, moves: Moves, run: Run) -> None:
    registry = kind()
    run(registry)
    storage = with_storage(registry, run)
    first = moves.push(registry.host, layers=layers)
    moves.pull(registry.host)
    again = moves.push(registry.host, layers=layers)
    assert again.digest == first.digest
    assert {layer.action for layer in again.layers} == {"skipped"}
    assert not registry.uploads
    assert all(server.requests("GET") for server in storage)
    no_leak(registry, *storage)


@pytest.mark.parametrize("kind", [kind for kind in NAMED if kind is not Harbor], ids=lambda kind: kind.__name__)
def test_a_proxy_that_limits_requests(kind: type[Registry], moves: Moves, run: Run) -> None:
    """413 for everything long: in chunks where the registry takes them, a sentence where it does not."""

    class Limited(kind):  # type: ignore[misc, valid-type]
        refuse = Harbor.refuse
        longest = Harbor.longest
        page = Harbor.page

    registry = Limited()
    run(registry)
    with_storage(registry, run)
    if issubclass(kind, (GoogleAr, Quay)):
        moves.push_fails(registry.host, "pushing the blob|bytes", ocibridge.OcibridgeError)
        assert not registry.tags
    else:
        moves.push(registry.host)
        moves.pull(registry.host)
        patches = [len(seen.body) for seen in registry.requests("PATCH") if seen.body]
        assert patches
        assert max(patches) <= Harbor.longest


def test_where_there_is_a_proxy_everything_goes_through_it(
    way: HttpProxy | None, moves: Moves, server: Registry
) -> None:
    """The fault tests would be worth half as much if their proxy was not asked."""
    moves.push(server.host)
    assert server.seen
    assert way is None or sorted(passed.path for passed in way.seen) == sorted(seen.path for seen in server.seen)


def test_zot_gets_its_least_chunk(moves: Moves, run: Run) -> None:
    class Behind(Zot):
        refuse = Harbor.refuse
        longest = Harbor.longest
        page = Harbor.page

    registry = Behind()
    run(registry)
    moves.push(registry.host)
    sizes = [len(seen.body) for seen in registry.requests("PATCH") if seen.body]
    assert all(size >= Zot.least for size in sizes[:-1])
    assert not [seen for seen in registry.seen if "transfer-encoding" in seen.headers]


def test_ecr_range_that_stands_still_after_an_error(moves: Moves, run: Run) -> None:
    class Behind(Ecr):
        refuse = Harbor.refuse
        longest = Harbor.longest
        page = Harbor.page

    registry = Behind()
    run(registry)
    registry.fault("PATCH", "uploads", lambda seen, true: Reply(500), after=2)
    moves.push(registry.host)
    moves.pull(registry.host)


def test_ghcr_takes_no_long_patch(tmp_path: Path, run: Run) -> None:
    registry = Ghcr()
    run(registry)
    with_storage(registry, run)
    moves = Moves(make_model(tmp_path / "large.carton", 5 * MiB), tmp_path)
    moves.push(registry.host)
    moves.pull(registry.host)


def test_ghcr_referrers_lead_to_a_rate_limit(moves: Moves, run: Run) -> None:
    registry = Ghcr()
    run(registry)
    digest = moves.push(registry.host).digest
    with open_store(parse_reference(f"{registry.host}/{NAME}"), moves.options) as store:
        assert store.referrers(digest) == []
    assert not registry.requests("GET", "/limit")


@pytest.mark.parametrize("status", [303, 400, 404, 405, 429, 500, 501, 503])
def test_registries_without_referrers(status: int, moves: Moves, pushed: Registry) -> None:
    """Whatever is no 200 means that there is no such API: the fallback tag is asked."""
    (digest,) = pushed.tags.values()
    pushed.fault("GET", "/referrers/", lambda seen, true: Reply(status, b"no"), times=99)
    with open_store(parse_reference(f"{pushed.host}/{NAME}"), moves.options) as store:
        assert store.referrers(digest) == []
    assert pushed.requests("GET", f"/v2/{NAME}/manifests/{digest.replace(':', '-')}")


@pytest.mark.parametrize("status", [401, 403])
def test_forbidden_referrers_are_not_absent(status: int, moves: Moves, pushed: Registry) -> None:
    (digest,) = pushed.tags.values()
    pushed.fault("GET", "/referrers/", lambda seen, true: Reply(status), times=99)
    with open_store(parse_reference(f"{pushed.host}/{NAME}"), moves.options) as store:
        with pytest.raises(ocibridge.AuthenticationError, match="listing the referrers"):
            store.referrers(digest)


def docker_hub(run: Run) -> tuple[DockerHub, TokenServer]:
    hub, tokens = DockerHub(), TokenServer()
    tokens.open_to_all = True
    hub.realm = f"{tokens.url}/token"
    run(hub)
    run(tokens)
    return hub, tokens


def test_docker_hub_counts_pulls(moves: Moves, run: Run) -> None:
    hub, _ = docker_hub(run)
    moves.push(hub.host)
    hub.left = 1
    moves.pull(hub.host)
    hub.seen.clear()
    moves.pull_fails(hub.host, r"429 \(TOOMANYREQUESTS: You have reached your pull rate limit.*log in for a higher one")
    assert len([seen for seen in hub.requests("GET") if seen.authorization]) == 2 * moves.options.retries.attempts


def test_docker_hub_asks_for_patience(moves: Moves, run: Run) -> None:
    hub, _ = docker_hub(run)
    moves.push(hub.host)
    hub.left, hub.pause = 0, 3600
    hub.seen.clear()
    moves.pull_fails(hub.host, "429.*the registry asks to wait 3600 seconds")
    assert len([seen for seen in hub.requests("GET") if seen.authorization]) == 2  # one for each of two pulls


def test_cookies_are_not_kept(moves: Moves, run: Run) -> None:
    registry = Harbor()
    run(registry)
    moves.push(registry.host)
    moves.pull(registry.host)
    no_leak(registry)


def test_an_nginx_that_gives_up_waiting(moves: Moves, run: Run) -> None:
    """504 although the registry behind has stored the blob."""
    registry = Registry()
    run(registry)

    def timeout(seen: object, true: object) -> Reply:
        assert callable(true)
        true()
        return Reply(504, b"<html>504 Gateway Time-out</html>", {"Content-Type": "text/html"})

    registry.fault("PUT", "uploads", timeout, times=2)
    moves.push(registry.host)
    moves.pull(registry.host)
