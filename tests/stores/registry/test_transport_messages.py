# SPDX-License-Identifier: Apache-2.0
"""Responses that are none, and requests that must not be sent, over real connections (RFC 9112)."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import httpx
import pytest

from ocibridge.stores.registry.auth import parse_challenges

from .asking import CHUNKED, MUCH, OK, Make, Serve, asking, connections, serve

__all__ = ["asking", "connections", "serve"]


NO_HTTP = {
    "no HTTP": (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "illegal status line"),
    "two lengths": (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", "conflicting"),
    "an endless head": (b"HTTP/1.1 200 OK\r\n" + b"X-PositionedWriter: xxxxxxxxxxx\r\n" * (MUCH // 20), "too long"),
    "an endless field": (b"HTTP/1.1 200 OK\r\nX: " + b"x" * MUCH, "too long"),
}


@pytest.mark.parametrize(("said", "words"), NO_HTTP.values(), ids=NO_HTTP)
def test_what_is_no_http_is_an_error(said: bytes, words: str, serve: Serve, asking: Make) -> None:
    server = serve([said], [OK])
    ask = asking(server)
    with pytest.raises(httpx.RemoteProtocolError, match=words):
        ask()
    assert ask() == b"hello"
    assert server.connections == 2


BROKEN = {
    "nothing": (None, "disconnected"),
    "half a head": (b"HTTP/1.1 200 OK\r\nContent-", "disconnected"),
    "half a body": (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", "not whole.* closed connection"),
    "half a chunk": (CHUNKED + b"9\r\nhello", "not whole.* closed connection"),
    "no chunk": (CHUNKED + b"x\r\nhello\r\n", "not whole.* illegal chunk header"),
    "chunks without an end": (CHUNKED + b"5\r\nhello\r\n", "not whole.* closed connection"),
    "an endless trailer": (
        CHUNKED + b"5\r\nhello\r\n0\r\n" + b"X-PositionedWriter: xxxxxxxxxxx\r\n" * (MUCH // 20),
        "not whole.* too long",
    ),
}


@pytest.mark.parametrize(("said", "words"), BROKEN.values(), ids=BROKEN)
def test_what_is_no_whole_response_is_a_broken_connection(
    said: bytes | None, words: str, serve: Serve, asking: Make
) -> None:
    server = serve([said], [OK])
    ask = asking(server)
    with pytest.raises(httpx.ReadError, match=words):
        ask()
    assert ask() == b"hello"
    assert server.connections == 2


def test_challenges_stay_apart_and_other_fields_are_joined(serve: Serve, asking: Make) -> None:
    fields = b'WWW-Authenticate: Basic realm="open\r\nX: a\r\nwww-authenticate: Bearer realm="t"\r\nx: \xe4\xf6, c\r\n'
    response = asking(serve([b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n" + fields + b"\r\n"])).open()
    assert response.headers["x"] == "a, \xe4\xf6, c"
    assert parse_challenges(response.headers.get_list("www-authenticate"))["bearer"] == {"realm": "t"}
    response.close()


# Requests.


def pieces(size: int) -> Iterator[bytes]:
    for start in range(0, size, 1 << 18):
        yield b"x" * min(1 << 18, size - start)


def test_a_server_that_refuses_a_body_and_hangs_up_is_heard(serve: Serve, asking: Make) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def refuse() -> None:
            made, _ = listener.accept()
            with made:
                made.recv(10)
                made.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno!")
                made.shutdown(socket.SHUT_WR)
                # Reads what is on its way, so that the response is not lost with it, and then no more.
                made.settimeout(1.0)
                with suppress(TimeoutError):
                    for _ in range(20):
                        made.recv(65536)
                made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\0" * 8)

        thread = threading.Thread(target=refuse)
        thread.start()
        try:
            ask = asking(serve())
            ask._url = httpx.URL(f"http://127.0.0.1:{listener.getsockname()[1]}/x")
            response = ask.open("PUT", pieces(1 << 26), headers={"Content-Length": str(1 << 26)})
            assert response.status_code == 413
            assert b"".join(response.iter_raw()) == b"no!"
            response.close()
        finally:
            thread.join()


@pytest.mark.parametrize("announced", [4, 6])
def test_a_body_of_another_length_is_not_sent_as_if_it_were_whole(announced: int, serve: Serve, asking: Make) -> None:
    server = serve([OK])
    with pytest.raises(httpx.LocalProtocolError):
        asking(server).open("PUT", pieces(5), headers={"Content-Length": str(announced)})
    # Nothing that could be taken for a request of its own.
    assert all(len(body) <= announced for _, body in server.requests)


@pytest.mark.parametrize("value", ["a\r\nEvil: 1", "a\nEvil: 1", "a\rb", "a\0b"])
def test_no_value_becomes_a_header_of_its_own(value: str, serve: Serve, asking: Make) -> None:
    server = serve([OK])
    with pytest.raises(httpx.LocalProtocolError):
        asking(server).open(headers={"Authorization": value})
    assert server.requests == []
