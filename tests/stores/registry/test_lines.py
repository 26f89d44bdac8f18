# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 on our own lines, against servers that say exactly what a test wants (RFC 9112)."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from itertools import pairwise
from typing import cast

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocibridge.stores.registry import lines as lines_module
from ocibridge.stores.registry.answers import MOST, Answers
from ocibridge.stores.registry.auth import parse_challenges
from ocibridge.stores.registry.lines import Line, Lines, interrupt
from ocibridge.stores.registry.messages import CHALLENGES, Patience, Reply, Request, Site, Stream

from ...registry import TLS

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
Script = Sequence[bytes | None]
"""What is answered to the requests of one connection, one after the other; None closes it unanswered."""


class Server:
    """Reads requests, and answers each with the next bytes of its connection's script.

    Attributes:
        requests: Head and body of each request, in their order.
        connections: How many there were.
    """

    def __init__(self, scripts: Sequence[Script]) -> None:
        self._scripts = scripts
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.site = Site("http", "127.0.0.1", self._listener.getsockname()[1])
        self.requests: list[tuple[bytes, bytes]] = []
        self.connections = 0
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        for script in self._scripts:
            with suppress(OSError):
                made, _ = self._listener.accept()
                self.connections += 1
                thread = threading.Thread(target=self._serve, args=(made, script))
                thread.start()
                self._threads.append(thread)

    def _serve(self, made: socket.socket, script: Script) -> None:
        with made, made.makefile("rb") as file, suppress(OSError):
            for said in script:
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    line = file.readline()
                    if not line:
                        return
                    head += line
                size = next((int(each.split()[1]) for each in head.lower().split(b"\r\n") if b"h:" in each), 0)
                self.requests.append((head, file.read(size)))
                if said is None:
                    return
                made.sendall(said)
            if script and script[-1] and script[-1].endswith(b"stay"):
                file.read(1)

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    made: list[Server] = []

    def start(*scripts: Script) -> Server:
        made.append(Server(scripts))
        return made[-1]

    yield start
    for server in made:
        server.close()


@pytest.fixture
def lines() -> Iterator[Lines]:
    made = Lines(None, lambda *_: None)
    yield made
    made.close()


def ask(lines: Lines, server: Server, method: str = "GET", body: bytes = b"", seconds: float = 5.0) -> Reply:
    patience = Patience(seconds, seconds, seconds)
    return lines.send(Request(method, server.site, "/x", {"Host": "x"}, patience, len(body), (body,)))


def got(reply: Reply) -> bytes:
    with closing(reply):
        return b"".join(reply.body)


def test_a_line_is_used_again(serve: Callable[..., Server], lines: Lines) -> None:
    server = serve([OK, OK, OK])
    for body in (b"", b"a small body", b"b" * 100_000):
        assert got(ask(lines, server, "PUT", body)) == b"hello"
    assert server.connections == 1
    assert [body for _, body in server.requests] == [b"", b"a small body", b"b" * 100_000]
    assert server.requests[1][0] == b"PUT /x HTTP/1.1\r\nHost: x\r\nContent-Length: 12\r\n\r\n"


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
WHOLE = {
    "length": OK,
    "chunks": CHUNKED + b"3\r\nhel\r\n2;name=value\r\nlo\r\n0\r\n\r\n",
    "chunks and a trailer": CHUNKED + b"5\r\nhello\r\n0\r\nChecksum: 1\r\n\r\n",
    "after hints": b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + OK,
}


@pytest.mark.parametrize("said", WHOLE.values(), ids=WHOLE)
def test_bodies_with_an_end_keep_the_line(serve: Callable[..., Server], lines: Lines, said: bytes) -> None:
    server = serve([said, OK])
    reply = ask(lines, server)
    assert reply.status == 200
    assert "link" not in reply.headers
    assert "checksum" not in reply.headers
    assert got(reply) == b"hello"
    assert got(ask(lines, server)) == b"hello"
    assert server.connections == 1


class Said:
    """A line on which an answer comes in pieces."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = [piece for piece in pieces if piece]

    def receive(self, seconds: float | None) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""

    def receive_into(self, target: memoryview, seconds: float | None) -> int:
        piece = self.receive(seconds)
        count = min(len(piece), len(target))
        target[:count] = piece[:count]
        if piece[count:]:
            self._pieces.insert(0, piece[count:])
        return count


@pytest.mark.parametrize("said", [*WHOLE.values(), b"HTTP/1.1 200 OK\r\n\r\nhello"], ids=[*WHOLE, "until the end"])
@given(cuts=st.lists(st.integers(0, 120), max_size=8), size=st.integers(1, 9))
def test_it_does_not_matter_how_an_answer_is_cut(said: bytes, cuts: list[int], size: int) -> None:
    places = sorted({0, *(min(cut, len(said)) for cut in cuts), len(said)})
    answers = Answers(cast(Line, Said([said[a:b] for a, b in pairwise(places)])), False, None)
    answers.read_head()
    assert answers.status == 200
    body, target = b"", memoryview(bytearray(size))
    while count := answers.read_into(target):
        body += target[:count]
    assert body == b"hello"
    assert answers.in_step


BARE = {
    "HEAD": ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),
    "HEAD of chunks": ("HEAD", CHUNKED),
    "HEAD of anything": ("HEAD", b"HTTP/1.1 404 Not Found\r\n\r\n"),
    "204": ("GET", b"HTTP/1.1 204 No Content\r\n\r\n"),
    "304": ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"),
}


@pytest.mark.parametrize(("method", "said"), BARE.values(), ids=BARE)
def test_answers_without_a_body_keep_the_line(
    serve: Callable[..., Server], lines: Lines, method: str, said: bytes
) -> None:
    server = serve([said, OK])
    assert got(ask(lines, server, method)) == b""
    assert got(ask(lines, server)) == b"hello"
    assert server.connections == 1


LAST = {
    "says so": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
    "says so among others": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: x\r\nConnection: Close\r\n\r\nhello",
    "old": b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "without an end": b"HTTP/1.1 200 OK\r\n\r\nhello",
    "says more": OK + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
    "says rubbish": OK + b"rubbish",
}


@pytest.mark.parametrize("said", LAST.values(), ids=LAST)
def test_a_line_that_is_not_in_step_is_given_up(serve: Callable[..., Server], lines: Lines, said: bytes) -> None:
    server = serve([said], [OK])
    assert got(ask(lines, server)) == b"hello"
    assert got(ask(lines, server)) == b"hello"
    assert server.connections == 2


def test_a_body_after_a_head_is_not_taken_for_the_next_answer(serve: Callable[..., Server], lines: Lines) -> None:
    server = serve([OK + b"stay"], [OK])
    assert got(ask(lines, server, "HEAD")) == b""
    assert got(ask(lines, server)) == b"hello"
    assert server.connections == 2


def test_a_body_that_was_not_read_gives_the_line_up(serve: Callable[..., Server], lines: Lines) -> None:
    server = serve([b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhello" + b"stay"], [OK])
    ask(lines, server).close()
    assert got(ask(lines, server)) == b"hello"
    assert server.connections == 2


def test_a_line_that_was_closed_while_it_was_idle_is_not_used(serve: Callable[..., Server], lines: Lines) -> None:
    server = serve([OK], [OK])
    assert got(ask(lines, server)) == b"hello"
    time.sleep(0.2)
    assert got(ask(lines, server, "PUT", b"body")) == b"hello"
    assert server.connections == 2


def test_lines_get_old(serve: Callable[..., Server], lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve([OK, OK], [OK])
    assert got(ask(lines, server)) == b"hello"
    monkeypatch.setattr(lines_module, "IDLE_SECONDS", 0.0)
    assert got(ask(lines, server)) == b"hello"
    assert server.connections == 2


BROKEN = {
    "nothing": (None, "disconnected"),
    "half a head": (b"HTTP/1.1 200 OK\r\nContent-", "disconnected"),
    "no HTTP": (b"SSH-2.0-OpenSSH_9.2\r\n", "no HTTP"),
    "half a body": (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", "closed connection"),
    "half a chunk": (CHUNKED + b"9\r\nhello", "closed connection"),
    "no chunk": (CHUNKED + b"x\r\nhello\r\n", "no HTTP"),
    "chunks without an end": (CHUNKED + b"5\r\nhello\r\n", "closed connection"),
    "two lengths": (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", "no HTTP"),
    "length and chunks": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "no HTTP",
    ),
    "another protocol": (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "no HTTP"),
    "an endless head": (b"HTTP/1.1 200 OK\r\n" + b"X-Filler: xxxxxxxxxxx\r\n" * (MOST // 8), "too much"),
    "an endless field": (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 2 * MOST, "too much"),
    "endless hints": (b"HTTP/1.1 103 Early Hints\r\n\r\n" * (MOST // 8), "too much"),
    "an endless trailer": (CHUNKED + b"5\r\nhello\r\n0\r\n" + b"X-Filler: xxxxxxxxxxx\r\n" * (MOST // 8), "too much"),
}


@pytest.mark.parametrize(("said", "words"), BROKEN.values(), ids=BROKEN)
def test_what_is_no_whole_answer_is_an_error(
    serve: Callable[..., Server], lines: Lines, said: bytes | None, words: str
) -> None:
    server = serve([said], [OK])
    with pytest.raises(httpx.RemoteProtocolError, match=words):
        got(ask(lines, server))
    assert got(ask(lines, server)) == b"hello"


def test_a_server_that_refuses_a_body_and_hangs_up_is_heard(lines: Lines) -> None:
    refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno!"
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def refuse() -> None:
            made, _ = listener.accept()
            with made:
                made.recv(10)
                made.sendall(refusal)
                made.shutdown(socket.SHUT_WR)
                # Reads what is on its way, so that the answer is not lost with it, and then no more.
                made.settimeout(1.0)
                with suppress(TimeoutError):
                    for _ in range(20):
                        made.recv(65536)
                made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\0" * 8)

        thread = threading.Thread(target=refuse)
        thread.start()
        try:
            site = Site("http", "127.0.0.1", listener.getsockname()[1])
            reply = lines.send(Request("PUT", site, "/", {}, length=1 << 26, body=Pieces(1 << 26)))
            assert reply.status == 413
            assert got(reply) == b"no!"
        finally:
            thread.join()


class Pieces:
    def __init__(self, size: int) -> None:
        self._size = size

    def __iter__(self) -> Iterator[bytes]:
        for start in range(0, self._size, 1 << 18):
            yield b"x" * min(1 << 18, self._size - start)


@pytest.mark.parametrize("announced", [4, 6])
def test_a_body_of_another_length_is_not_sent_as_if_it_were_whole(
    serve: Callable[..., Server], lines: Lines, announced: int
) -> None:
    server = serve([OK])
    with pytest.raises(httpx.LocalProtocolError):
        lines.send(Request("PUT", server.site, "/x", {}, length=announced, body=Pieces(5)))
    # Nothing that could be taken for a request of its own.
    assert all(len(body) <= announced for _, body in server.requests)


@pytest.mark.parametrize("value", ["a\r\nEvil: 1", "a\nEvil: 1", "a\rb", "a\0b", "\u010d\u010a"])
def test_no_value_becomes_a_header_of_its_own(serve: Callable[..., Server], lines: Lines, value: str) -> None:
    server = serve([OK])
    with pytest.raises(httpx.LocalProtocolError):
        lines.send(Request("GET", server.site, "/x", {"Authorization": value}))
    assert server.requests == []


def test_nobody_waits_for_ever(serve: Callable[..., Server], lines: Lines) -> None:
    server = serve([b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhellostay"], [b"HTTP/1.1 200 stay"])
    with closing(ask(lines, server, seconds=0.3)) as reply, pytest.raises(httpx.ReadTimeout):
        list(reply.body)
    with pytest.raises(httpx.ReadTimeout):
        ask(lines, server, seconds=0.3)


def test_a_port_without_a_server_is_a_connect_error(lines: Lines) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(httpx.ConnectError) as caught:
        lines.send(Request("GET", Site("http", "127.0.0.1", port), "/", {}))
    assert isinstance(caught.value.__cause__, ConnectionRefusedError)


def test_whoever_waits_can_be_woken(serve: Callable[..., Server]) -> None:
    made: list[Stream] = []
    with closing(Lines(None, lambda line, _: made.append(line))) as lines:
        server = serve([b"HTTP/1.1 200 stay"])
        threading.Timer(0.3, lambda: interrupt(made[0])).start()
        started = time.monotonic()
        with pytest.raises(httpx.TransportError):
            ask(lines, server, seconds=60.0)
        assert time.monotonic() - started < 10


def test_bytes_go_straight_to_where_they_are_wanted(serve: Callable[..., Server], lines: Lines) -> None:
    data = bytes(range(256)) * 4096
    server = serve([b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(data), data), OK])
    reply = ask(lines, server)
    target, position = memoryview(bytearray(len(data) + 10)), 0
    while count := reply.body.readinto(target[position : position + 100_000]):
        position += count
    reply.close()
    assert target[:position] == data
    assert got(ask(lines, server)) == b"hello"
    assert server.connections == 1


def test_no_more_lines_are_kept_than_needed(
    serve: Callable[..., Server], lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines_module, "IDLE", 2)
    server = serve(*([OK, OK] for _ in range(4)), [OK])
    for reply in [ask(lines, server) for _ in range(4)]:
        assert got(reply) == b"hello"
    for reply in [ask(lines, server) for _ in range(3)]:
        assert got(reply) == b"hello"
    assert server.connections == 5


def test_challenges_stay_apart_and_other_fields_are_joined(serve: Callable[..., Server], lines: Lines) -> None:
    fields = b'WWW-Authenticate: Basic realm="open\r\nX: a\r\nwww-authenticate: Bearer realm="t"\r\nx: \xe4\xf6, c\r\n'
    server = serve([b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n" + fields + b"\r\n"])
    reply = ask(lines, server)
    assert reply.headers["x"] == "a, \xe4\xf6, c"
    assert parse_challenges(reply.headers[CHALLENGES].split("\n"))["bearer"] == {"realm": "t"}
    reply.close()


def test_a_line_that_was_closed_meanwhile_is_broken(serve: Callable[..., Server]) -> None:
    here, there = socket.socketpair()
    line = Line(here)
    line.close()
    there.close()
    assert not line.usable()
    with pytest.raises(httpx.WriteError):
        line.send(b"x", 1.0)
    with pytest.raises(httpx.ReadError):
        line.receive(1.0)
    with pytest.raises(httpx.ReadError):
        line.receive_into(memoryview(bytearray(1)), 1.0)


def test_what_came_too_early_is_seen_within_tls_too() -> None:
    here, there = socket.socketpair()
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(TLS / "server.pem", TLS / "server.key")
    asking = ssl.create_default_context(cafile=TLS / "ca.pem")
    with ThreadPoolExecutor(1) as pool, here, there:
        other = pool.submit(serving.wrap_socket, there, server_side=True)
        line = Line(asking.wrap_socket(here, server_hostname="localhost"))
        with other.result(timeout=20) as served:
            line.since = time.monotonic()
            served.send(b"good evil")
            assert line.receive_into(memoryview(bytearray(4)), 5.0) == 4
            # All of it has left the socket, and waits where no poll can see it.
            assert not line.usable()
            assert line.receive(5.0) == b" evil"
            line.close()
