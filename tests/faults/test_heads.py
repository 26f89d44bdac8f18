# SPDX-License-Identifier: Apache-2.0
"""Registries, and proxies before them, that do not answer HEAD requests for blobs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ocibridge
from ocibridge.stores.registry import RegistryClient

from ..stores.registry.fault_server import Reply
from .moves import NAME, OPTIONS, Moves
from .quirks import Registry, error

EVER = 1000
BOTH: dict[str, Any] = {"registry": OPTIONS, "source_registry": OPTIONS}
UPLOADS = "/blobs/uploads/"
REFUSALS = {
    "403": error(403, "DENIED"),
    "405": error(405, "UNSUPPORTED"),
    "405 of a proxy": Reply(405, b"<html><h1>405 Not Allowed</h1></html>", {"Content-Type": "text/html"}),
    "501 of a server": Reply(501, b"<html>Unsupported method</html>", {"Content-Type": "text/html;charset=utf-8"}),
}
refusals = pytest.mark.parametrize("refusal", REFUSALS)


def without_heads(server: Registry, refusal: str) -> None:
    server.fault("HEAD", "/blobs/", lambda seen, true: REFUSALS[refusal], times=EVER)


@refusals
def test_blobs_that_are_new_are_pushed(refusal: str, server: Registry, moves: Moves) -> None:
    without_heads(server, refusal)
    moves.push(server.host)
    moves.pull(server.host)


@refusals
def test_blobs_that_are_known_are_not_sent_again(refusal: str, pushed: Registry, moves: Moves) -> None:
    without_heads(pushed, refusal)
    report = replace(moves, tag="v2").push(pushed.host)
    assert {layer.action for layer in report.layers} == {"skipped"}
    assert not [seen for seen in pushed.seen if UPLOADS in seen.path]
    # What is only looked for does not move either.
    assert {seen.headers.get("range") for seen in pushed.requests("GET") if "/blobs/" in seen.path} <= {"bytes=0-0"}


@refusals
def test_blobs_of_another_size_are_sent_again(refusal: str, pushed: Registry, moves: Moves) -> None:
    digest, data = max(((digest, data) for (_, digest), data in pushed.blobs.items()), key=lambda blob: len(blob[1]))
    pushed.blobs[NAME, digest] = data[:-1]
    without_heads(pushed, refusal)
    moves.push(pushed.host)
    assert pushed.blobs[NAME, digest] == data


@refusals
def test_pulls_verifications_and_copies_need_no_head(
    refusal: str, pushed: Registry, moves: Moves, tmp_path: Path
) -> None:
    without_heads(pushed, refusal)
    moves.pull(pushed.host)
    assert ocibridge.verify(moves.place(pushed.host), registry=OPTIONS).identity is not None
    there = replace(moves, name="models/copy")
    ocibridge.copy(moves.place(pushed.host), there.place(pushed.host), **BOTH)
    there.pull(pushed.host)
    with Registry() as other:
        without_heads(other, refusal)
        for _ in range(2):
            ocibridge.copy(moves.place(pushed.host), moves.place(other.host), **BOTH)
        moves.pull(other.host)


@refusals
def test_a_download_by_the_oras_client_needs_no_head(
    refusal: str, pushed: Registry, moves: Moves, tmp_path: Path
) -> None:
    without_heads(pushed, refusal)
    (_, digest), data = max(pushed.blobs.items(), key=lambda blob: len(blob[1]))
    client = RegistryClient(pushed.host, options=OPTIONS)
    try:
        client.download_blob(f"{pushed.host}/{NAME}", digest, str(tmp_path / "blob"))
        assert (tmp_path / "blob").read_bytes() == data
        assert client.get_blob(f"{pushed.host}/{NAME}", digest).content == data
    finally:
        client.close()
