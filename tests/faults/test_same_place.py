# SPDX-License-Identifier: Apache-2.0
"""Transfers that always break at the same place, however much is sent once more: they come to an end."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ocibridge
from ocibridge.stores.registry.options import Timeouts

from ..stores.registry.fault_server import Reply, Seen
from .moves import NAME, OPTIONS, Moves, blob_path, one_sentence
from .quirks import Distribution3, Registry, error
from .server import Act, Pieces, Reset

EVER = 1000
UPLOADS = "/blobs/uploads/"
PLACE = 400_000
"""The byte of the blob by which downloads break."""
LONGEST = 300_000
"""Bytes of the longest request that a registry takes, so that uploads come in several."""
TRIES = OPTIONS.retries.attempts
IMPATIENT: dict[str, Any] = {"timeouts": Timeouts(read=0.3, commit=0.3)}


def whole(server: Registry) -> bytes:
    return max(server.blobs.values(), key=len)


def breaking(server: Registry, how: str, places: Iterator[int]) -> Act:
    """Send the blob from its start, whatever range is asked for, as far as the next place."""
    data = whole(server)
    length = {"Content-Length": str(len(data))}

    def pieces() -> Iterator[bytes]:
        yield data[: next(places)]
        if how == "stalls":
            server.stopping.wait(5)

    def act(seen: Seen, true: Callable[[], Reply]) -> Reply:
        if how == "resets":
            return Reset(200, headers=length, pieces=pieces)
        return Pieces(200, headers={} if how == "ends without a length" else length, pieces=pieces)

    return act


@pytest.mark.timeout(30)
@pytest.mark.parametrize("how", ["ends", "ends without a length", "resets", "stalls"])
def test_a_download_that_breaks_at_the_same_place_whatever_range_is_asked_for(
    how: str, pushed: Registry, moves: Moves, tmp_path: Path
) -> None:
    dest = tmp_path / "back"
    fault = pushed.fault("GET", blob_path(pushed), breaking(pushed, how, itertools.repeat(PLACE)), times=EVER)
    what = "stopped responding" if how == "stalls" else "broke the connection"
    where = f"each time by byte {PLACE} of {len(whole(pushed))}"
    with pytest.raises(ocibridge.NetworkError, match=f"{what} {TRIES} times in a row.*{where}") as caught:
        ocibridge.pull(moves.place(pushed.host), dest, registry=replace(OPTIONS, **IMPATIENT))
    one_sentence(caught.value)
    assert fault.done == TRIES
    assert not dest.exists()


@pytest.mark.timeout(30)
def test_what_is_fetched_once_more_is_no_progress_where_it_breaks_earlier_and_later_in_turns(
    pushed: Registry, moves: Moves, tmp_path: Path
) -> None:
    places = itertools.cycle([PLACE, PLACE // 2, PLACE - 1])
    fault = pushed.fault("GET", blob_path(pushed), breaking(pushed, "ends", places), times=EVER)
    with pytest.raises(ocibridge.NetworkError, match=f"{TRIES} times in a row.*by byte {PLACE} of"):
        ocibridge.pull(moves.place(pushed.host), tmp_path / "back.carton", registry=OPTIONS)
    assert fault.done == TRIES


def test_a_download_that_gets_further_each_time_is_whole_in_the_end(pushed: Registry, moves: Moves) -> None:
    """More breaks than tries, and each behind the one before."""
    places = itertools.count(100_000, 100_000)
    fault = pushed.fault("GET", blob_path(pushed), breaking(pushed, "ends", places), times=EVER)
    moves.pull(pushed.host)
    assert fault.done > 2 * TRIES


def begins(seen: Seen) -> int:
    """The first byte of a chunk."""
    return int(seen.headers.get("content-range", "0-").partition("-")[0])


def closes(seen: Seen) -> bool:
    """Whether a request closes an upload that came in chunks."""
    return seen.method == "PUT" and seen.headers.get("content-length", "0") == "0"


def forget(server: Registry, seen: Seen) -> None:
    """Lose the session that a request belongs to."""
    server.uploads.pop(seen.path.partition("?")[0].rpartition("/")[2], None)


def losing(server: Registry, how: str) -> dict[str, Any]:
    """A fault that loses the session, and ends in an answer, in none, or in the middle of the body."""

    def act(seen: Seen, true: Callable[[], Reply]) -> Reply:
        forget(server, seen)
        if how == "stalls":
            server.stopping.wait(1)
        return error(500, "UNKNOWN") if how == "refuses" else Reply(0)

    return {"take": 10_000} if how == "resets" else {"act": act}


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    ("method", "how", "words"),
    [
        ("PATCH", "resets", f"broke the connection {TRIES} times in a row"),
        ("PATCH", "ends", f"broke the connection {TRIES} times in a row"),
        ("PATCH", "refuses", "status 500"),
        ("PATCH", "stalls", f"stopped responding {TRIES} times in a row"),
        ("PUT", "ends", f"broke the connection {TRIES} times in a row"),
        ("PUT", "refuses", "status 500"),
        ("PUT", "stalls", f"stopped responding {TRIES} times in a row"),
    ],
)
def test_an_upload_that_breaks_at_the_same_place_and_loses_its_session(
    method: str, how: str, words: str, server: Registry, moves: Moves
) -> None:
    server.fault("PUT|PATCH", UPLOADS, refuse=Reply(413), times=EVER, when=lambda seen: _length(seen) > LONGEST)
    here = (lambda seen: begins(seen) > 0) if method == "PATCH" else closes
    fault = server.fault(method, UPLOADS, when=here, times=EVER, **losing(server, how))
    moves.push_fails(server.host, words, options=IMPATIENT)
    assert fault.done == TRIES
    sent = sum(len(seen.body) for seen in server.seen)
    assert sent < (TRIES + 1) * 1_300_000
    assert not server.tags


@pytest.mark.timeout(30)
def test_an_upload_of_which_the_registry_keeps_nothing_more_than_before(moves: Moves) -> None:
    """The session lives on, and what it has grows once and never again."""
    with Distribution3() as registry:
        registry.fault("PUT|PATCH", UPLOADS, refuse=Reply(413), times=EVER, when=lambda seen: _length(seen) > LONGEST)
        kept = 100_000

        def lose(seen: Seen, true: Callable[[], Reply]) -> Reply:
            data = registry.uploads[seen.path.partition("?")[0].rpartition("/")[2]]
            data += seen.body[: max(0, kept - len(data))]
            return Reply(0)

        fault = registry.fault("PATCH", UPLOADS, lose, times=EVER, when=lambda seen: _length(seen) > kept)
        moves.push_fails(registry.host, f"broke the connection {TRIES} times in a row")
        assert fault.done <= TRIES + 1
        assert not registry.tags


def test_an_upload_that_loses_its_session_further_on_each_time_is_whole_in_the_end(
    server: Registry, moves: Moves
) -> None:
    """As often as there are chunks: each one that arrives for the first time is progress."""
    server.fault("PUT|PATCH", UPLOADS, refuse=Reply(413), times=EVER, when=lambda seen: _length(seen) > LONGEST)
    lost: set[int] = set()

    def once(seen: Seen) -> bool:
        start = begins(seen)
        return bool(start) and start not in lost and not lost.add(start)  # type: ignore[func-returns-value]

    fault = server.fault("PATCH", UPLOADS, times=EVER, when=once, take=10_000)
    moves.push(server.host, options={"retries": replace(OPTIONS.retries, attempts=2)})
    assert fault.done == len(lost) > 2
    moves.pull(server.host)
    assert len(server.requests("POST", f"/v2/{NAME}")) >= len(lost)


def _length(seen: Seen) -> int:
    return int(seen.headers.get("content-length", "0"))
