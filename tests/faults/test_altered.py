# SPDX-License-Identifier: Apache-2.0
"""Manifests that are altered on their way to the registry, which then says that it has another digest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import ocibridge

from ..stores.registry.fault_server import Reply, Seen
from .moves import NAME, OPTIONS, Moves
from .quirks import Registry
from .server import Fault

EVER = 1000
BOTH: dict[str, Any] = {"registry": OPTIONS, "source_registry": OPTIONS}
MANIFEST = f"/v2/{NAME}/manifests/"


def altering(server: Registry, path: str, times: int) -> Fault:
    """Let the registry get, and store, one byte that was not sent; it is still JSON."""

    def act(seen: Seen, true: Callable[[], Reply]) -> Reply:
        altered = seen.body.replace(b"application/", b"applicatioo/", 1)
        return server.reply(replace(seen, body=altered))

    return server.fault("PUT", path, act, times=times)


def stored(server: Registry, name: str = NAME) -> int:
    return len([digest for known, digest in server.manifests if known == name])


@pytest.mark.parametrize("times", [1, 2])
def test_a_manifest_that_is_altered_on_the_way_is_pushed_again(times: int, server: Registry, moves: Moves) -> None:
    fault = altering(server, f"{MANIFEST}v1$", times)
    digest = moves.push(server.host).digest
    assert fault.done == times
    assert len(server.requests("PUT", MANIFEST)) == times + 1
    assert stored(server) == 2
    assert server.tags[NAME, "v1"] == digest
    moves.pull(server.host)


def test_a_manifest_that_is_always_altered_is_an_error(server: Registry, moves: Moves) -> None:
    fault = altering(server, MANIFEST, EVER)
    moves.push_fails(server.host, "digest that the registry announces", ocibridge.IntegrityError)
    assert fault.done == 3
    assert stored(server) == 1


@pytest.mark.parametrize("times", [1, 2])
def test_a_copy_of_an_altered_manifest_is_pushed_again(times: int, pushed: Registry, moves: Moves) -> None:
    (digest,) = pushed.tags.values()
    fault = altering(pushed, "/v2/models/copy/manifests/", times)
    there = replace(moves, name="models/copy")
    ocibridge.copy(moves.place(pushed.host), there.place(pushed.host), **BOTH)
    assert fault.done == times
    assert stored(pushed, "models/copy") == 2
    assert pushed.tags["models/copy", "v1"] == digest
    there.pull(pushed.host)
