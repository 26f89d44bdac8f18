# SPDX-License-Identifier: Apache-2.0
"""A pull from a registry that misbehaves: the right bytes, or one sentence and nothing under the final name."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

import ocibridge
from ocibridge.oci import Descriptor, parse_reference
from ocibridge.stores.opening import open_store
from ocibridge.stores.registry import RegistryStore
from ocibridge.stores.registry.options import Timeouts

from ..stores.registry.fault_server import Reply, Seen
from .conftest import Run
from .moves import NAME, OPTIONS, Moves, blob_path, make_model, no_leak
from .quirks import Redirecting, Registry, Storage
from .server import Act, Pieces, Raw

EVER = 1000
BLOB = "<the blob of the weight>"
CONFIG = "<the blob of the config>"
TAG = "/manifests/v1$"
OTHER = Descriptor.of(b"other", "x").digest
NOT_ENCODED = "encoded, which changes its bytes.*switch compression off"


def says(*args: Any, **more: Any) -> Act:
    return lambda seen, true: Reply(*args, **more)


def change(**more: Any) -> Act:
    """The true answer, with other fields."""
    return lambda seen, true: replace(true(), **more)


def with_headers(**headers: str) -> Act:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda seen, true: replace(found := true(), headers={**found.headers, **named})


def body(edit: Callable[[bytes], bytes]) -> Act:
    return lambda seen, true: replace(found := true(), body=edit(found.body))


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def zipped(seen: Seen, true: Callable[[], Reply]) -> Reply:
    found = true()
    return replace(found, body=gzip.compress(found.body), headers={**found.headers, "Content-Encoding": "gzip"})


def chunked(cut: int | None = None) -> Act:
    """The true body in chunked transfer encoding, which stops without its end where `cut` says."""

    def act(seen: Seen, true: Callable[[], Reply]) -> Reply:
        found = true()

        def pieces() -> Iterator[bytes]:
            for start in range(0, len(found.body[:cut]), 50_000):
                data = found.body[:cut][start : start + 50_000]
                yield b"%x\r\n%s\r\n" % (len(data), data)
            if cut is None:
                yield b"0\r\n\r\n"

        return Pieces(found.status, headers={**found.headers, "Transfer-Encoding": "chunked"}, pieces=pieces)

    return act


def endless(seen: Seen, true: Callable[[], Reply]) -> Reply:
    found = true()
    return Pieces(
        200, headers=found.headers, pieces=lambda: itertools.chain([found.body], itertools.repeat(b"x" * 65536))
    )


def too_long(seen: Seen, true: Callable[[], Reply]) -> Reply:
    """A length that promises more than comes before the line ends."""
    found = true()
    return replace(found, headers={**found.headers, "Content-Length": "99999999"}, cut=len(found.body))


def other_range(seen: Seen, true: Callable[[], Reply]) -> Reply:
    found = true()
    wrong = {"Content-Range": f"bytes 5-{4 + len(found.body)}/{len(found.body) + 5}"}
    return replace(found, status=206, headers={**found.headers, **wrong})


def later(seconds: float) -> str:
    return format_datetime(datetime.now(timezone.utc) + timedelta(seconds=seconds), usegmt=True)


GOOD: list[tuple[str, str, Act, dict[str, Any]]] = [
    *((f"blob-{status}", BLOB, says(status), {}) for status in (408, 429, 500, 502, 503, 504)),
    *((f"manifest-{status}", TAG, says(status), {}) for status in (408, 429, 500, 502, 503, 504)),
    ("three-in-a-row", BLOB, says(503), {"times": 3}),
    ("retry-after-date", BLOB, says(429, headers={"Retry-After": later(0)}), {}),
    ("retry-after-garbage", TAG, says(429, headers={"Retry-After": "1e9"}), {}),
    ("no-answer", BLOB, says(0), {"times": 3}),
    ("no-answer-for-the-manifest", TAG, says(0), {"times": 3}),
    ("no-http", BLOB, lambda s, t: Raw(200, b"\x15\x03\x01\x00\x02\x02\x0a\r\n\r\n"), {}),
    *((f"cut-{count}", BLOB, change(cut=count), {}) for count in (0, 1, 1000, 65_536, 600_000)),
    *((f"cut-{count}-without-length", BLOB, change(cut=count, length=False), {}) for count in (0, 1000, 600_000)),
    ("cut-again-and-again", BLOB, change(cut=90_000), {"times": 12}),
    ("cut-manifest", TAG, change(cut=100), {}),
    ("cut-config", CONFIG, change(cut=10), {}),
    ("length-too-long", BLOB, too_long, {}),
    ("length-missing", BLOB, change(length=False), {"times": EVER}),
    ("chunked", BLOB, chunked(), {"times": EVER}),
    ("chunked-cut", BLOB, chunked(300_000), {}),
    ("no-digest", TAG, with_headers(Docker_Content_Digest=""), {"times": EVER}),
    ("type-with-parameters", BLOB, with_headers(Content_Type="application/octet-stream; q=1"), {"times": EVER}),
    ("no-type", TAG, with_headers(Content_Type=""), {"times": EVER}),
    ("warning", TAG, with_headers(Warning='299 - "moves on Monday"'), {"times": EVER}),
    ("moved", BLOB, lambda s, t: Reply(307, headers={"Location": s.path + "?x=1"}), {}),
    ("moved-for-good", TAG, lambda s, t: Reply(301, headers={"Location": s.path + "?x=1"}), {}),
]

BAD: list[tuple[str, str, Act, str]] = [
    ("blob-500", BLOB, says(500), "status 500.*try again later"),
    ("blob-404", BLOB, says(404), "status 404"),
    ("blob-403", BLOB, says(403), "status 403.*login"),
    ("blob-401", BLOB, says(401), "status 401.*login"),
    ("blob-451", BLOB, says(451), "status 451"),
    ("blob-204", BLOB, says(204), "status 204"),
    ("manifest-404", TAG, says(404), "status 404"),
    ("manifest-500", TAG, says(500), "status 500"),
    ("for-hours", BLOB, says(429, headers={"Retry-After": "9999"}), "asks to wait 9999 seconds"),
    (
        "until-tomorrow",
        TAG,
        lambda seen, true: Reply(503, headers={"Retry-After": later(86400)}),
        "asks to wait 86[0-9]{3} seconds",
    ),
    ("never-an-answer", BLOB, says(0), "broke the connection"),
    ("never-more-than-nothing", BLOB, change(cut=0), "broke the connection"),
    ("corrupt", BLOB, body(flipped), "other bytes"),
    ("corrupt-config", CONFIG, body(flipped), "other bytes"),
    ("corrupt-manifest", TAG, body(flipped), "digest that the registry announces"),
    ("shorter", BLOB, body(lambda data: data[:-1]), "broke the connection|another size"),
    ("longer", BLOB, body(lambda data: data + b"x"), "another size|other bytes|larger"),
    ("empty", BLOB, body(lambda data: b""), "broke the connection|another size"),
    ("another-blob", BLOB, body(lambda data: bytes(len(data))), "other bytes"),
    ("encoded", BLOB, zipped, NOT_ENCODED),
    ("encoded-config", CONFIG, zipped, NOT_ENCODED),
    ("encoded-manifest", TAG, zipped, NOT_ENCODED),
    ("encoded-in-name", BLOB, with_headers(Content_Encoding="br"), NOT_ENCODED),
    ("endless", BLOB, endless, "another size|larger"),
    ("endless-manifest", TAG, endless, "larger than"),
    ("wrong-digest-header", TAG, with_headers(Docker_Content_Digest=OTHER), "digest that the registry announces"),
    ("html", TAG, says(200, b"<html>log in to this network</html>"), "not valid JSON"),
    ("not-a-model", TAG, says(200, b'{"schemaVersion":2}'), "not valid: config"),
    ("circles", BLOB, lambda s, t: Reply(302, headers={"Location": s.path}), "redirected more than 5 times"),
    ("to-a-file", BLOB, says(302, headers={"Location": "file:///etc/passwd"}), "no plain web address"),
    ("to-a-user", BLOB, says(307, headers={"Location": "http://u:p@127.0.0.1/"}), "no plain web address"),
    ("nowhere", BLOB, says(307, headers={"Location": "http://[x/"}), "no valid address"),
    ("redirect-without-address", BLOB, says(307), "status 307"),
    ("endless-refusal", BLOB, lambda s, t: Pieces(404, pieces=lambda: itertools.repeat(b"x" * 65536)), "status 404"),
]


def place(server: Registry, pattern: str) -> str:
    if pattern == CONFIG:
        manifest = next(data for data, _ in server.manifests.values())
        return manifest.decode().split('"config"')[1].split('"digest":"')[1].split('"')[0] + "$"
    return blob_path(server) if pattern == BLOB else pattern


@pytest.mark.parametrize(("pattern", "act", "more"), [case[1:] for case in GOOD], ids=[case[0] for case in GOOD])
def test_right_in_the_end(pattern: str, act: Act, more: dict[str, Any], pushed: Registry, moves: Moves) -> None:
    fault = pushed.fault("GET", place(pushed, pattern), act, **more)
    moves.pull(pushed.host)
    assert fault.done
    no_leak(pushed)


@pytest.mark.parametrize(("pattern", "act", "words"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_one_sentence(pattern: str, act: Act, words: str, pushed: Registry, moves: Moves) -> None:
    fault = pushed.fault("GET", place(pushed, pattern), act, times=EVER)
    moves.pull_fails(pushed.host, words, ocibridge.OcibridgeError)
    assert fault.done
    no_leak(pushed)


@pytest.mark.parametrize("second", ["whole", "416", "nothing", "part-as-whole", "other-range"])
def test_ranges_that_are_not_kept(second: str, pushed: Registry, moves: Moves) -> None:
    """The first answer is cut; the range asked for then is answered with something else, for ever."""
    path = blob_path(pushed)
    whole = max(pushed.blobs.values(), key=len)
    act = {
        "whole": says(200, whole),
        "416": says(416),
        "nothing": says(200, b""),
        "part-as-whole": change(status=200),
        "other-range": other_range,
    }[second]
    pushed.fault("GET", path, change(cut=400_000), times=1)
    pushed.fault("GET", path, act, times=EVER, when=lambda seen: "range" in seen.headers)
    assert moves.try_pull(pushed.host) is (second == "whole")


def test_the_tag_moves_between_the_requests(pushed: Registry, moves: Moves, tmp_path: Path) -> None:
    """Everything comes from the manifest that was read first, whatever the tag says by then."""
    (old,) = pushed.tags.values()
    other = Moves(make_model(tmp_path / "other.carton", 50_000), tmp_path, tag="v2")
    new = other.push(pushed.host).digest

    def move(seen: Seen, true: Callable[[], Reply]) -> Reply:
        found = true()
        pushed.tags[NAME, "v1"] = new
        return found

    pushed.fault("GET", TAG, move)
    assert moves.pull(pushed.host).digest == old
    assert ocibridge.pull(moves.place(pushed.host), tmp_path / "x.carton", registry=OPTIONS).digest == new


def test_warnings_are_kept(pushed: Registry, moves: Moves) -> None:
    pushed.fault("GET", TAG, with_headers(Warning='299 - "moves on Monday"'), times=EVER)
    with open_store(parse_reference(moves.place(pushed.host)), OPTIONS) as store:
        assert isinstance(store, RegistryStore)
        store.fetch_manifest("v1")
        store.fetch_manifest("v1")
        assert store.host.warnings == ["moves on Monday"]


def test_storage_elsewhere_that_misbehaves(moves: Moves, run: Run) -> None:
    registry = Redirecting()
    registry.storage = storage = Storage(registry)
    run(registry)
    run(storage)
    moves.push(registry.host)
    storage.fault("GET", "", says(503), times=2)
    storage.fault("GET", "", change(cut=300_000), times=2)
    storage.fault("GET", "", says(0), times=1)
    moves.pull(registry.host)
    storage.fault("GET", "", says(403, b"<Error><Code>AccessDenied</Code></Error>"), times=EVER)
    moves.pull_fails(registry.host, "status 403")
    no_leak(registry, storage)


def test_a_storage_that_asks_for_a_password_gets_none(moves: Moves, run: Run) -> None:
    registry = Redirecting()
    registry.storage = storage = Storage(registry)
    run(registry)
    run(storage)
    moves.push(registry.host)
    challenge = {"WWW-Authenticate": f'Bearer realm="{storage.url}/token",service="s"'}
    storage.fault("GET", "", says(401, headers=challenge), times=EVER)
    moves.pull_fails(registry.host, "status 401", options={"username": "tester", "password": "geheim-4711"})
    assert not storage.requests("GET", "/token")
    no_leak(registry, storage)


@pytest.mark.parametrize("pattern", [BLOB, TAG])
def test_a_registry_that_stops_in_the_middle(pattern: str, pushed: Registry, moves: Moves) -> None:
    """Some bytes, then nothing: the line is given up and taken up again."""

    def stall(seen: Seen, true: Callable[[], Reply]) -> Reply:
        found = true()

        def pieces() -> Iterator[bytes]:
            yield found.body[:200]
            pushed.stopping.wait(20)

        headers = {**found.headers, "Content-Length": str(len(found.body))}
        return Pieces(found.status, headers=headers, pieces=pieces)

    fault = pushed.fault("GET", place(pushed, pattern), stall, times=1)
    moves.pull(pushed.host, options={"timeouts": Timeouts(read=0.5)})
    assert fault.done


def test_a_manifest_that_drips(pushed: Registry, moves: Moves) -> None:
    """Bytes keep coming, so no timeout between two of them ends it."""

    def drip(seen: Seen, true: Callable[[], Reply]) -> Reply:
        found = true()

        def pieces() -> Iterator[bytes]:
            for number in range(len(found.body)):
                yield found.body[number : number + 1]
                if pushed.stopping.wait(0.05):
                    return

        headers = {**found.headers, "Content-Length": str(len(found.body))}
        return Pieces(found.status, headers=headers, pieces=pieces)

    pushed.fault("GET", TAG, drip, times=EVER)
    slow = {"timeouts": Timeouts(read=5, rate=10_000, window=0.3)}
    moves.pull_fails(pushed.host, "too slow.*10000 bytes per second", ocibridge.NetworkError, options=slow)
