# SPDX-License-Identifier: Apache-2.0
"""A push to a registry that misbehaves: the right bytes and the tag, or one sentence and no tag."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

import ocibridge
from ocibridge.oci import Descriptor
from ocibridge.stores.registry.options import Timeouts

from ..stores.registry.fault_server import Reply, Seen
from .conftest import Run
from .moves import NAME, Moves, no_leak
from .quirks import Distribution3, Registry, Storage, error
from .server import Act, Pieces, Raw

UPLOADS = "/blobs/uploads/"
SEND = "PUT|PATCH"
EVER = 1000
OTHER = Descriptor.of(b"other", "x").digest


def says(*args: Any, **more: Any) -> Act:
    """Answer so, and do nothing."""
    return lambda seen, true: Reply(*args, **more)


def with_headers(**headers: str) -> Act:
    """The true answer, with some headers replaced."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda seen, true: replace(found := true(), headers={**found.headers, **named})


def afterwards(reply: Reply) -> Act:
    """Do what was asked, and answer something else."""

    def act(seen: Seen, true: Callable[[], Reply]) -> Reply:
        true()
        return reply

    return act


def endless(status: int) -> Reply:
    def pieces() -> Iterator[bytes]:
        return itertools.repeat(b"x" * 65536)

    return Pieces(status, pieces=pieces)


@dataclass(frozen=True)
class Case:
    """A fault, and what comes of it: nothing, or an error that says `words`."""

    id: str
    method: str
    path: str
    act: Act | None = None
    words: str = ""
    more: dict[str, Any] = field(default_factory=dict)
    kind: type[Exception] = ocibridge.OcibridgeError


CASES = [
    # Answers that may be better next time.
    *(Case(f"start-{status}", "POST", UPLOADS, says(status)) for status in (408, 429, 500, 502, 503, 504)),
    *(Case(f"send-{status}", SEND, UPLOADS, says(status)) for status in (408, 429, 500, 502, 503, 504)),
    *(Case(f"manifest-{status}", "PUT", "/manifests/", says(status)) for status in (408, 429, 500, 503, 504)),
    Case("head-503", "HEAD", "/blobs/", says(503), more={"times": 3}),
    Case("retry-after-0", "POST", UPLOADS, says(429, headers={"Retry-After": "0"}), more={"times": 2}),
    Case("retry-after-past", "POST", UPLOADS, says(503, headers={"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"})),
    Case("retry-after-garbage", "POST", UPLOADS, says(503, headers={"Retry-After": "soon"})),
    Case("500-for-ever", "POST", UPLOADS, says(500), "status 500.*try again later", {"times": EVER}),
    Case("send-503-for-ever", SEND, UPLOADS, says(503), "status 503.*try again later", {"times": EVER}),
    Case("429-for-hours", "POST", UPLOADS, says(429, headers={"Retry-After": "9999"}), "wait 9999", {"times": EVER}),
    # Answers that stay.
    Case("start-400", "POST", UPLOADS, says(400), "status 400", {"times": EVER}),
    Case("start-405", "POST", UPLOADS, says(405), "status 405", {"times": EVER}),
    Case("start-403", "POST", UPLOADS, says(403), "status 403.*login", {"times": EVER}, ocibridge.AuthenticationError),
    Case("start-401", "POST", UPLOADS, says(401), "status 401.*login", {"times": EVER}, ocibridge.AuthenticationError),
    Case("no-such-name", "POST", UPLOADS, lambda s, t: error(404, "NAME_UNKNOWN"), "NAME_UNKNOWN", {"times": EVER}),
    Case("send-507", SEND, UPLOADS, says(507), "status 507", {"times": EVER}),
    Case("413-everywhere", SEND, UPLOADS, None, "413.*limit", {"times": EVER, "refuse": Reply(413)}),
    Case("manifest-413", "PUT", "/manifests/", says(413), "413.*limit", {"times": EVER}),
    Case(
        "manifest-invalid",
        "PUT",
        "/manifests/",
        lambda s, t: error(400, "MANIFEST_INVALID"),
        "MANIFEST_INVALID.*does not accept this manifest",
        {"times": EVER},
    ),
    # Cut lines.
    *(Case(f"cut-after-{count}", SEND, UPLOADS, None, more={"take": count}) for count in (0, 1, 70_000, 999_999)),
    Case("cut-for-ever", SEND, UPLOADS, None, "broke the connection", {"take": 70_000, "times": EVER}),
    Case("no-answer", "POST|PUT|PATCH|HEAD", "/v2/", says(0), more={"times": 2}),
    Case("answer-of-put-lost", "PUT", UPLOADS, afterwards(Reply(0)), more={"times": 2}),
    Case("answer-of-patch-lost", "PATCH", UPLOADS, afterwards(Reply(0))),
    Case("answer-of-manifest-lost", "PUT", "/manifests/", afterwards(Reply(0))),
    Case("never-an-answer", "POST", UPLOADS, says(0), "broke the connection", {"times": EVER}),
    # Upload sessions.
    Case("200-for-201", "PUT", UPLOADS, afterwards(Reply(200)), more={"times": EVER}),
    Case("204-for-201", "PUT", UPLOADS, afterwards(Reply(204)), more={"times": EVER}),
    Case("202-without-blob", "PUT", UPLOADS, says(202), "status 202", {"times": EVER}),
    Case("session-unknown", SEND, UPLOADS, lambda s, t: error(404, "BLOB_UPLOAD_UNKNOWN"), "", {"times": 1}),
    Case("no-location", "POST", UPLOADS, says(202), "no upload address", {"times": EVER}),
    Case(
        "location-nowhere", "POST", UPLOADS, says(202, headers={"Location": "http://[x/"}), "address", {"times": EVER}
    ),
    Case(
        "location-file",
        "POST",
        UPLOADS,
        says(202, headers={"Location": "file:///etc/passwd"}),
        "no plain web address",
        {"times": EVER},
    ),
    Case(
        "location-user",
        "POST",
        UPLOADS,
        says(202, headers={"Location": "http://u:p@127.0.0.1/x"}),
        "no plain web address",
        {"times": EVER},
    ),
    Case("start-moved", "POST", UPLOADS, lambda s, t: Reply(307, headers={"Location": s.path})),
    Case(
        "round-in-circles",
        "POST",
        UPLOADS,
        lambda s, t: Reply(307, headers={"Location": s.path}),
        "more than 5 times",
        {"times": EVER},
    ),
    Case(
        "moved-for-good", "POST", UPLOADS, says(301, headers={"Location": "/v3"}), "status 301.*moved", {"times": EVER}
    ),
    # Digests.
    Case("corrupt", "PUT", UPLOADS, lambda s, t: error(400, "DIGEST_INVALID"), "other bytes", {"times": EVER}),
    Case(
        "other-digest-stored",
        "PUT",
        UPLOADS,
        with_headers(Docker_Content_Digest=OTHER),
        "another digest",
        {"times": EVER},
        ocibridge.IntegrityError,
    ),
    Case(
        "other-manifest-stored",
        "PUT",
        "/manifests/",
        says(201, headers={"Docker-Content-Digest": OTHER}),
        "digest that the registry announces",
        {"times": EVER},
        ocibridge.IntegrityError,
    ),
    Case("head-lies", "HEAD", "/blobs/", says(200, length=False), "MANIFEST_BLOB_UNKNOWN.*push again", {"times": EVER}),
    Case("head-of-another-size", "HEAD", "/blobs/", says(200, headers={"Content-Length": "7"}), more={"times": EVER}),
    # Answers that are none.
    Case(
        "no-http", "POST", UPLOADS, lambda s, t: Raw(200, b"SSH-2.0-x\r\n\r\n"), "sent no valid HTTP", {"times": EVER}
    ),
    Case("no-http-once", "POST", UPLOADS, lambda s, t: Raw(200, b"\x15\x03\x01\x00\x02\x02\x0a")),
    Case(
        "endless-headers",
        "POST",
        UPLOADS,
        lambda s, t: Raw(202, b"HTTP/1.1 202 OK\r\n" + b"X: " + b"x" * 300_000),
        "sent no valid HTTP|broke the connection",
        {"times": EVER},
    ),
    Case(
        "two-lengths",
        "POST",
        UPLOADS,
        lambda s, t: Raw(202, b"HTTP/1.1 202 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
        "sent no valid HTTP",
        {"times": EVER},
    ),
    Case("endless-refusal", "POST", UPLOADS, lambda s, t: endless(400), "status 400", {"times": EVER}),
    Case("endless-answer", "POST", UPLOADS, lambda s, t: endless(202), "larger than", {"times": EVER}),
    Case(
        "control-characters", "POST", UPLOADS, lambda s, t: error(400, "X\x1b[2J", "a\r\nb\x00"), "X", {"times": EVER}
    ),
]


@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_push(case: Case, known: bool, server: Registry, moves: Moves) -> None:
    if known:
        # A repository that holds something gets blobs in another way than one that is new.
        server.manifests[NAME, OTHER] = (b"{}", "x")
        server.tags[NAME, "old"] = OTHER
    fault = server.fault(case.method, case.path, case.act, **case.more)
    if not case.words:
        moves.push(server.host)
        server.faults.clear()
        moves.pull(server.host)
    else:
        moves.push_fails(server.host, case.words, case.kind)
        assert [tag for _, tag in server.tags] == (["old"] if known else [])
    # Not every blob is sent with a PATCH.
    assert fault.done or case.method == "PATCH"
    no_leak(server)


def test_a_4xx_that_will_not_change_is_not_tried_again(server: Registry, moves: Moves) -> None:
    server.fault("PUT", "/manifests/", says(400), times=EVER)
    moves.push_fails(server.host, "status 400")
    assert len(server.requests("PUT", f"/v2/{NAME}/manifests/")) == 1


def test_failures_are_counted_from_the_last_progress(moves: Moves, run: Run) -> None:
    """More cuts than attempts, and bytes that stay between them: distribution 3 keeps what came."""
    registry = Distribution3()
    run(registry)
    registry.fault(SEND, UPLOADS, refuse=Reply(413), times=EVER, when=lambda seen: _length(seen) > 300_000)
    for number in range(6):
        registry.fault("PATCH", UPLOADS, take=40_000, after=number, when=lambda seen: _length(seen) > 100_000)
    moves.push(registry.host)
    moves.pull(registry.host)


def _length(seen: Seen) -> int:
    return int(seen.headers.get("content-length", "0"))


def test_upload_to_another_host(moves: Moves, run: Run) -> None:
    registry = Registry()
    storage = Storage(registry)
    run(registry)
    run(storage)

    def elsewhere(seen: Seen, true: Callable[[], Reply]) -> Reply:
        found = true()
        session = found.headers["Location"].partition("?")[0].rpartition("/")[2]
        return replace(found, headers={"Location": storage.address(NAME, session)})

    registry.fault("POST", UPLOADS, elsewhere, times=EVER)
    moves.push(registry.host)
    moves.pull(registry.host)
    assert storage.requests("PUT")
    no_leak(registry, storage)


@pytest.mark.parametrize("stuck", ["POST", SEND])
def test_a_registry_that_stops_answering(stuck: str, server: Registry, moves: Moves) -> None:
    def wait(seen: Seen, true: Callable[[], Reply]) -> Reply:
        server.stopping.wait(20)
        return Reply(0)

    fault = server.fault(stuck, UPLOADS, wait, times=1)
    moves.push(server.host, options={"timeouts": Timeouts(read=0.5, commit=0.5)})
    assert fault.done
    moves.pull(server.host)


def test_a_slow_commit_is_waited_for(server: Registry, moves: Moves) -> None:
    """The answer to a closing PUT takes longer than any other."""

    def slowly(seen: Seen, true: Callable[[], Reply]) -> Reply:
        server.stopping.wait(0.8)
        return true()

    fault = server.fault("PUT", UPLOADS, slowly)
    moves.push(server.host, options={"timeouts": Timeouts(read=0.5, commit=20)})
    assert fault.done
    assert len(server.requests("PUT", f"/v2/{NAME}{UPLOADS}")) == len(server.blobs)
