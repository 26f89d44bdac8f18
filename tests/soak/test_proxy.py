# SPDX-License-Identifier: Apache-2.0
"""The faults do happen, where they are said to, and nowhere else."""

from __future__ import annotations

import http.client
import http.server
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator

import pytest

from ..quiet import QuietServer
from .faults import DRIP, END, FLIP, INSERT, KINDS, RESET, STALL, Fault, Faulty, Profile, draw, profile
from .framing import CONTENT, FRAME, HEAD, Frames
from .proxy import FaultyProxy

BODY = bytes(range(256)) * 40
ANYWHERE = (HEAD, FRAME, CONTENT)


class Echo(http.server.BaseHTTPRequestHandler):
    """Answers with what it was sent, and `BODY` where that was nothing."""

    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"] or 0)) or BODY
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with QuietServer(("127.0.0.1", 0), Echo) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield f"127.0.0.1:{running.server_address[1]}"
        running.shutdown()
        thread.join()


Ask = Callable[..., tuple[bytes, FaultyProxy]]


@pytest.fixture
def ask(server: str) -> Ask:
    """Send `data` through a proxy with a fault, and give what comes back."""

    def send(fault: Fault | None, data: bytes = b"") -> tuple[bytes, FaultyProxy]:
        with FaultyProxy(server, lambda number: (fault,) if fault else ()) as proxy:
            connection = http.client.HTTPConnection(proxy.host, timeout=5)
            try:
                connection.request("PUT", "/", data)
                return connection.getresponse().read(), proxy
            except (OSError, http.client.HTTPException) as exc:
                return repr(exc).encode(), proxy
            finally:
                connection.close()

    return send


def test_without_faults_everything_passes(ask: Ask) -> None:
    data = random.Random(1).randbytes(3_000_000)
    back, proxy = ask(None, data)
    assert back == data
    assert (proxy.connections, dict(proxy.happened)) == (1, {})


@pytest.mark.parametrize("up", [True, False])
def test_one_bit_of_the_content_is_flipped(ask: Ask, up: bool) -> None:
    back, proxy = ask(Fault(FLIP, up, 700, bit=3, parts=(CONTENT,)), BODY)
    assert [at for at in range(len(BODY)) if back[at] != BODY[at]] == [700]
    assert back[700] == BODY[700] ^ 8
    assert dict(proxy.happened) == {(FLIP, "up" if up else "down", CONTENT): 1}
    assert proxy.altered("up") is up
    assert proxy.altered("down") is not up


def test_positions_can_be_those_of_some_messages() -> None:
    data = b"".join(REQUESTS)
    fault = Fault(FLIP, True, 3, parts=(CONTENT,), where=b" /c ")
    steps = Faulty(fault, Frames(deque(), responses=False)).feed(data)
    fed = b"".join(step for step in steps if isinstance(step, bytes))
    assert fed == data.replace(b"0123456789", b"0122456789")


def test_bytes_are_inserted_into_the_content(ask: Ask) -> None:
    back, proxy = ask(Fault(INSERT, False, 5, data=b"xyz", parts=(CONTENT,)))
    assert back == (BODY[:5] + b"xyz" + BODY[5:])[: len(BODY)]
    assert proxy.happened[INSERT, "down", CONTENT] == 1


def test_the_head_of_a_response_may_be_altered(ask: Ask) -> None:
    back, proxy = ask(Fault(FLIP, False, 0, bit=1, parts=ANYWHERE))
    assert b"BadStatusLine" in back
    assert proxy.happened[FLIP, "down", HEAD] == 1


@pytest.mark.parametrize("up", [True, False])
@pytest.mark.parametrize(("kind", "words"), [(RESET, b"ConnectionResetError"), (END, b"IncompleteRead")])
def test_connections_end_in_the_middle(ask: Ask, kind: str, words: bytes, up: bool) -> None:
    back, proxy = ask(Fault(kind, up, 5000), BODY)
    if up and kind == END:
        words = b"RemoteDisconnected"
    assert words in back
    assert sum(proxy.happened.values()) == 1


@pytest.mark.parametrize("kind", [STALL, DRIP])
@pytest.mark.parametrize("up", [True, False])
def test_what_is_late_or_slow_arrives_in_the_end(ask: Ask, kind: str, up: bool) -> None:
    began = time.monotonic()
    back, proxy = ask(Fault(kind, up, 50, seconds=0.3, data=b"12"), BODY)
    assert back == BODY
    assert 0.25 < time.monotonic() - began < 3
    assert proxy.happened[kind, "up" if up else "down", ""] == 1


def test_a_healed_proxy_has_no_faults(server: str) -> None:
    with FaultyProxy(server, lambda number: (Fault(RESET, True, 0),)) as proxy:
        proxy.heal()
        connection = http.client.HTTPConnection(proxy.host, timeout=5)
        connection.request("PUT", "/", b"there")
        assert connection.getresponse().read() == b"there"
        connection.close()


REQUESTS = (
    b"HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n",
    b"PUT /b HTTP/1.1\r\ncontent-length: 5\r\n\r\n",
    b"hello",
    b"PATCH /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"a;x=1\r\n",
    b"0123456789",
    b"\r\n0\r\nTrailer: 1\r\n\r\n",
    b"GET /d HTTP/1.1\r\n\r\n",
)
RESPONSES = (
    b"HTTP/1.1 200 OK\r\nContent-Length: 77\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n" + b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 202 Accepted\r\nContent-Length: 3\r\n\r\n",
    b"abc",
    b"HTTP/1.0 200 OK\r\n\r\n",
    b"to the end",
)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_messages_are_taken_apart_however_they_arrive(size: int) -> None:
    waiting: deque[bytes] = deque()
    up, down = Frames(waiting, responses=False), Frames(waiting, responses=True)
    assert parts(up, b"".join(REQUESTS), size) == [
        (HEAD, b"".join(REQUESTS[:2])),
        (CONTENT, REQUESTS[2]),
        (HEAD, REQUESTS[3]),
        (FRAME, REQUESTS[4]),
        (CONTENT, REQUESTS[5]),
        (FRAME, REQUESTS[6]),
        (HEAD, REQUESTS[7]),
    ]
    assert [line.split()[0] for line in waiting] == [b"HEAD", b"PUT", b"PATCH", b"GET"]
    assert parts(down, b"".join(RESPONSES), size) == [
        (HEAD, b"".join(RESPONSES[:3])),
        (CONTENT, RESPONSES[3]),
        (HEAD, RESPONSES[4]),
        (CONTENT, RESPONSES[5]),
    ]


def parts(frames: Frames, data: bytes, size: int) -> list[tuple[str, bytes]]:
    """What `data` consists of, when it arrives in pieces of `size` bytes."""
    found: list[tuple[str, bytes]] = []
    for start in range(0, len(data), size):
        for what, piece in frames.split(data[start : start + size]):
            if found and found[-1][0] == what:
                found[-1] = what, found[-1][1] + piece
            else:
                found.append((what, piece))
    return found


def test_heads_of_requests_stay_as_they_are() -> None:
    data = b"".join(REQUESTS)
    heads = [part for what, part in parts(Frames(deque(), responses=False), data, 1000) if what == HEAD]
    for number in range(300):
        fault = draw(random.Random(number), (FLIP, INSERT), 40, up=True)
        steps = Faulty(fault, Frames(deque(), responses=False)).feed(data)
        fed = b"".join(step for step in steps if isinstance(step, bytes))
        assert all(head in fed for head in heads)
        assert fed != data or fault.where


def test_faults_follow_from_the_key_and_the_number_of_the_connection() -> None:
    chosen = Profile("some", 0.5, span=10_000)
    plan, again, other = chosen.plan("1 2 first"), chosen.plan("1 2 first"), chosen.plan("1 2 second")
    assert [again(number) for number in reversed(range(50))] == [plan(number) for number in reversed(range(50))]
    assert [other(number) for number in range(50)] != [plan(number) for number in range(50)]
    assert 10 < sum(1 for number in range(50) if plan(number)) < 40


def test_every_kind_is_drawn_in_both_directions() -> None:
    drawn = [draw(random.Random(number), KINDS, 1000) for number in range(500)]
    assert {(fault.kind, fault.up) for fault in drawn} == {(kind, up) for kind in KINDS for up in (True, False)}
    assert all(0 <= fault.at < 1000 for fault in drawn)


def test_commands_are_never_made_to_wait_for_timeouts() -> None:
    for number in range(200):
        chosen = profile(random.Random(number), 5000, command=True)
        plan = chosen.plan(str(number))
        faults = [fault for connection in range(10) for fault in plan(connection)]
        assert not any(fault.kind == STALL or HEAD in fault.parts or FRAME in fault.parts for fault in faults)
        assert not any(plan(connection) for connection in range(3, 10))
