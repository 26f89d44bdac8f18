# SPDX-License-Identifier: Apache-2.0
"""Warnings of a registry are kept for the user, bounded and harmless."""

from __future__ import annotations

from ocibridge.stores.registry.notices import MAX_LENGTH, MAX_NOTICES, Notices

from .conftest import MakeStore
from .fault_server import FaultServer, Reply

MANIFEST = b'{"schemaVersion":2}'


def test_only_what_the_registry_itself_says_counts() -> None:
    notices = Notices()
    for value in (
        '299 - "This repository moves on Monday."',
        '299 - "a \\"b\\"", 299 - "c"',
        '199 - "stale"',
        '299 proxy "not the registry"',
        '299 - "open',
        '299 - ""',
        'x299 - "no"',
        "",
    ):
        notices.add({"warning": value})
    assert notices.texts == ("This repository moves on Monday.", 'a "b"', "c")


def test_notices_are_bounded_printable_and_said_once() -> None:
    notices = Notices()
    for number in range(100):
        notices.add({"warning": ", ".join([f'299 - "{number % 50}\x1b[31m{"x" * 999}"'] * 2)})
    assert len(notices.texts) == MAX_NOTICES
    assert all(len(text) <= MAX_LENGTH and text.isprintable() for text in notices.texts)
    assert len(set(notices.texts)) == MAX_NOTICES


def test_a_host_keeps_its_own_warnings_without_secrets(
    server: FaultServer, other: FaultServer, make_store: MakeStore
) -> None:
    said = {"Warning": '299 - "no more geheim-42"'}
    challenge = Reply(401, headers={"WWW-Authenticate": "Basic realm=x", **said})
    away = Reply(307, headers={"Location": f"{other.url}/m", **said})
    server.on("GET", "/v2/r/manifests/v1", challenge, away)
    other.on("GET", "/m", Reply(200, MANIFEST, {"Warning": '299 - "of the storage"'}))
    store = make_store(username="u", password="geheim-42")
    assert store.fetch_manifest("v1")[1] == MANIFEST
    assert store.repository.host.warnings == ["no more ***"]
