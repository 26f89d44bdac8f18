# SPDX-License-Identifier: Apache-2.0
"""Connections: when they are used again, who waits for them, and how much they give at once (RFC 9112)."""

from __future__ import annotations

import hashlib
import socket
import threading
import time
import tracemalloc
from contextlib import ExitStack, suppress
from itertools import pairwise

import httpcore
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocibridge.settings import KiB, MiB
from ocibridge.stores.registry import transport
from ocibridge.stores.registry.errors import causes
from ocibridge.stores.registry.transport import Connections

from .asking import CHUNKED, OK, Asking, Make, Serve, asking, connections, serve

__all__ = ["asking", "connections", "serve"]


@pytest.mark.parametrize("tls", [False, True])
def test_a_connection_is_used_again(tls: bool, serve: Serve, asking: Make) -> None:
    server = serve([OK, OK, OK], tls=tls)
    ask = asking(server)
    for body in (b"", b"a small body", b"b" * 100_000):
        assert ask("PUT", body) == b"hello"
    assert server.connections == 1
    assert [body for _, body in server.requests] == [b"", b"a small body", b"b" * 100_000]
    assert server.requests[1][0].startswith(b"PUT /x HTTP/1.1\r\nHost: 127.0.0.1:")


WHOLE = {
    "length": OK,
    "chunks": CHUNKED + b"3\r\nhel\r\n2;name=value\r\nlo\r\n0\r\n\r\n",
    "chunks and a trailer": CHUNKED + b"5\r\nhello\r\n0\r\nChecksum: 1\r\n\r\n",
    "after hints": b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + OK,
}


@pytest.mark.parametrize("said", WHOLE.values(), ids=WHOLE)
def test_bodies_with_an_end_keep_the_connection(said: bytes, serve: Serve, asking: Make) -> None:
    server = serve([said, OK])
    ask = asking(server)
    response = ask.open()
    assert response.status_code == 200
    assert not {"link", "checksum"} & set(response.headers)
    assert b"".join(response.iter_raw()) == b"hello"
    response.close()
    assert ask() == b"hello"
    assert server.connections == 1


@pytest.mark.parametrize("said", [*WHOLE.values(), b"HTTP/1.1 200 OK\r\n\r\nhello"], ids=[*WHOLE, "until the end"])
@given(cuts=st.lists(st.integers(0, 120), max_size=8))
def test_it_does_not_matter_how_a_response_is_cut(said: bytes, cuts: list[int]) -> None:
    places = sorted({0, *(min(cut, len(said)) for cut in cuts), len(said)})
    inner = httpcore.MockStream([said[a:b] for a, b in pairwise(places)])
    stream = transport._Stream(inner, Connections(lambda *_: None, 5.0))
    with httpcore.HTTP11Connection(httpcore.Origin(b"http", b"x", 80), stream) as connection:
        response = connection.request("GET", "http://x/", headers={"Host": "x"})
    assert (response.status, response.content) == (200, b"hello")


BARE = {
    "HEAD": ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),
    "HEAD of chunks": ("HEAD", CHUNKED),
    "HEAD of anything": ("HEAD", b"HTTP/1.1 404 Not Found\r\n\r\n"),
    "204": ("GET", b"HTTP/1.1 204 No Content\r\n\r\n"),
    "304": ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"),
}


@pytest.mark.parametrize(("method", "said"), BARE.values(), ids=BARE)
def test_responses_without_a_body_keep_the_connection(method: str, said: bytes, serve: Serve, asking: Make) -> None:
    server = serve([said, OK])
    ask = asking(server)
    assert ask(method) == b""
    assert ask() == b"hello"
    assert server.connections == 1


LAST = {
    "says so": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
    "says so among others": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: x\r\nConnection: Close\r\n\r\nhello",
    "old": b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "without an end": b"HTTP/1.1 200 OK\r\n\r\nhello",
    "length and chunks": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5\r\nhello\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("said", LAST.values(), ids=LAST)
def test_a_connection_that_ends_is_not_used_again(said: bytes, serve: Serve, asking: Make) -> None:
    server = serve([said], [OK])
    ask = asking(server)
    assert ask() == b"hello"
    time.sleep(0.1)
    assert ask() == b"hello"
    assert server.connections == 2


def test_a_body_that_was_not_read_gives_the_connection_up(serve: Serve, asking: Make) -> None:
    server = serve([b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhello" + b"stay"], [OK])
    ask = asking(server)
    ask.open().close()
    assert ask() == b"hello"
    assert server.connections == 2


@pytest.mark.parametrize("tls", [False, True])
def test_a_connection_that_was_closed_while_it_was_idle_is_not_used(tls: bool, serve: Serve, asking: Make) -> None:
    server = serve([OK], [OK], tls=tls)
    ask = asking(server)
    assert ask() == b"hello"
    time.sleep(0.2)
    assert ask("PUT", b"body") == b"hello"
    assert server.connections == 2


def test_what_comes_while_a_connection_is_idle_gives_it_up(serve: Serve, asking: Make) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, ExitStack() as stack:
        server = serve([OK])

        def relay() -> None:
            made = stack.enter_context(listener.accept()[0])
            made.recv(10_000)
            made.sendall(OK)
            time.sleep(0.2)
            made.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")

        thread = threading.Thread(target=relay)
        thread.start()
        ask = asking(server)
        ask._url = httpx.URL(f"http://127.0.0.1:{listener.getsockname()[1]}/x")
        assert ask() == b"hello"
        thread.join()
        time.sleep(0.1)
        listener.close()
        # What follows is a new connection, which nobody takes any more, and not the unasked-for response.
        with pytest.raises(httpx.ConnectError):
            ask()


def test_connections_get_old(serve: Serve, asking: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "IDLE_SECONDS", 0.05)
    server = serve([OK, OK], [OK])
    ask = asking(server)
    assert ask() == b"hello"
    time.sleep(0.15)
    assert ask() == b"hello"
    assert server.connections == 2


def test_no_more_connections_are_kept_than_needed(serve: Serve, asking: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "MAX_IDLE", 2)
    server = serve(*([OK, OK] for _ in range(4)), [OK])
    ask = asking(server)
    for count in (4, 3):
        for response in [ask.open() for _ in range(count)]:
            assert b"".join(response.iter_raw()) == b"hello"
            response.close()
    assert server.connections == 5


def test_nothing_is_left_of_connections(serve: Serve, connections: Connections) -> None:
    server = serve(*([said, OK] for said in (OK, b"SSH-2.0-x\r\n", CHUNKED + b"9\r\nhello", None)), [OK], tls=True)
    ask = Asking(server, connections)
    before = threading.active_count()
    for _ in range(5):
        with suppress(httpx.TransportError):
            ask()
    assert connections._streams
    assert threading.active_count() <= before + 5  # the server's
    ask.close()
    assert not [each for each in connections._streams if each.get_extra_info("socket").fileno() >= 0]


# Waiting.


def test_nobody_waits_for_ever(serve: Serve, asking: Make) -> None:
    server = serve([b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhellostay"], [b"HTTP/1.1 200 stay"])
    ask = asking(server)
    response = ask.open(seconds=0.3)
    with pytest.raises(httpx.ReadTimeout):
        list(response.iter_raw())
    response.close()
    with pytest.raises(httpx.ReadTimeout):
        ask.open(seconds=0.3)


def test_a_port_without_a_server_is_a_connect_error(serve: Serve, asking: Make) -> None:
    ask = asking(serve())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ask._url = httpx.URL(f"http://127.0.0.1:{listener.getsockname()[1]}/x")
    with pytest.raises(httpx.ConnectError) as caught:
        ask.open()
    assert any(isinstance(cause, ConnectionRefusedError) for cause in causes(caught.value))


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("said", [b"HTTP/1.1 200 stay", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhellostay"])
def test_whoever_waits_can_be_woken(
    said: bytes, tls: bool, serve: Serve, asking: Make, connections: Connections
) -> None:
    server = serve([said], tls=tls)
    ask = asking(server)

    def wake() -> None:
        assert server.waiting.wait(20)
        time.sleep(0.2)
        connections.interrupt()

    thread = threading.Thread(target=wake)
    thread.start()
    started = time.monotonic()
    with pytest.raises(httpx.TransportError):
        list(ask.open(seconds=60.0).iter_raw())
    assert time.monotonic() - started < 20
    thread.join()


def test_the_time_to_connect_is_known(serve: Serve, asking: Make, connections: Connections) -> None:
    assert connections.latency == float("inf")
    asking(serve([OK]))()
    assert 0 < connections.latency < 5


# Much at once.


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("chunked", [False, True])
def test_large_bodies_arrive_whole_and_in_large_pieces(
    chunked: bool, tls: bool, serve: Serve, asking: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = hashlib.shake_128(b"large").digest(MiB + 1) * 8
    if chunked:
        parts = [data[start : start + 99_999] for start in range(0, len(data), 99_999)]
        said = CHUNKED + b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    else:
        said = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(data), data)
    server = serve([said, OK], tls=tls)
    ask, sizes = asking(server), []
    wait = transport._Stream.read

    def read(self: transport._Stream, max_bytes: int, timeout: float | None = None) -> bytes:
        found = wait(self, max_bytes, timeout)
        sizes.append(len(found))
        time.sleep(0.001)  # more arrives meanwhile
        return found

    monkeypatch.setattr(transport._Stream, "read", read)
    assert ask() == data
    # httpcore asks for 64 KiB, and a TLS record has 16 KiB at most.
    assert max(sizes) > (16 * KiB if tls else 64 * KiB)
    assert ask() == b"hello"
    assert server.connections == 1


@pytest.mark.parametrize("tls", [False, True])
def test_a_body_is_never_in_memory_as_a_whole(tls: bool, serve: Serve, asking: Make) -> None:
    size = 64 * MiB
    server = serve([b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (size, bytes(size))], tls=tls)
    tracemalloc.start()
    try:
        response, count = asking(server).open(), 0
        for piece in response.iter_raw():
            count += len(piece)
        response.close()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == size
    assert peak < 16 * MiB


# Errors.


@pytest.mark.parametrize(
    "name",
    [
        *("ConnectError", "ConnectTimeout", "LocalProtocolError", "NetworkError", "PoolTimeout", "ProtocolError"),
        *("ProxyError", "ReadError", "ReadTimeout", "TimeoutException", "UnsupportedProtocol"),
        *("WriteError", "WriteTimeout"),
    ],
)
def test_errors_of_httpcore_are_those_of_httpx(name: str) -> None:
    cause = getattr(httpcore, name)("words")
    with pytest.raises(getattr(httpx, name), match="words") as caught, transport._httpx_errors():
        raise cause
    assert type(caught.value) is getattr(httpx, name)
    assert caught.value.__cause__ is cause


def test_only_what_the_parser_complains_of_is_called_no_http() -> None:
    for words, kind in ((ValueError("status line"), httpx.RemoteProtocolError), ("disconnected", httpx.ReadError)):
        with pytest.raises(kind, match=str(words)), transport._httpx_errors():
            raise httpcore.RemoteProtocolError(words)


def test_an_address_that_is_no_web_address_is_not_asked(serve: Serve, asking: Make) -> None:
    ask = asking(serve())
    ask._url = httpx.URL("ftp://127.0.0.1/x")
    with pytest.raises(httpx.UnsupportedProtocol):
        ask.open()
