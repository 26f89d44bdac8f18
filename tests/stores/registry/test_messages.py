# SPDX-License-Identifier: Apache-2.0
"""Requests and answers as lines carry them."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from ocibridge.stores.registry.messages import Reply, Request, Site, say_where


@pytest.mark.parametrize(
    ("address", "site", "netloc"),
    [
        ("https://A.example/x", ("https", "a.example", 443), "a.example"),
        ("https://a.example:443/y", ("https", "a.example", 443), "a.example"),
        ("http://a.example:5000", ("http", "a.example", 5000), "a.example:5000"),
        ("http://a.example:443", ("http", "a.example", 443), "a.example:443"),
        ("http://[::1]:5000/", ("http", "::1", 5000), "[::1]:5000"),
        ("https://[2001:DB8::1]/", ("https", "2001:db8::1", 443), "[2001:db8::1]"),
        ("https://b\u00fccher.example/", ("https", "xn--bcher-kva.example", 443), "xn--bcher-kva.example"),
    ],
)
def test_the_site_of_an_address(address: str, site: tuple[str, str, int], netloc: str) -> None:
    found = Site.of(httpx.URL(address))
    assert found == site
    assert found.netloc == netloc
    assert Site.of(httpx.URL(Request("GET", found, "/v2/?n=1", {}).where)) == found


class Closed:
    """A body that counts how often it was closed."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces
        self.closed = 0

    def readinto(self, target: memoryview, /) -> int:
        raise NotImplementedError

    def __iter__(self) -> Iterator[bytes]:
        while self.pieces:
            yield self.pieces.pop(0)

    def close(self) -> None:
        self.closed += 1


def replied(body: Closed) -> Reply:
    return Reply(401, {}, body, Request("GET", Site("http", "x", 80), "/", {}), None)


@pytest.mark.parametrize("most", [0, 3, 4, 9])
def test_the_start_of_a_body_can_be_kept(most: int) -> None:
    body = Closed([b"ab", b"cd", b"", b"ef"] + [b"x"] * 1000)
    reply = replied(body)
    reply.keep(most)
    assert body.closed == 1
    # No more is read than that takes.
    assert len(body.pieces) >= 1000 - most
    assert b"".join(reply.body) == b"abcdefxxx"[:most]
    assert not reply.is_success


def test_what_was_kept_can_be_read_into_a_buffer() -> None:
    reply = replied(Closed([b"abc", b"d"]))
    reply.keep(100)
    target = memoryview(bytearray(3))
    assert [bytes(target[: reply.body.readinto(target)]) for _ in range(3)] == [b"abc", b"d", b""]


def test_a_line_that_breaks_while_a_body_is_kept_is_given_back() -> None:
    class Broken(Closed):
        def __iter__(self) -> Iterator[bytes]:
            raise httpx.ReadError("")

    body = Broken([])
    with pytest.raises(httpx.ReadError):
        replied(body).keep(10)
    assert body.closed == 1


def test_an_end_is_told_once() -> None:
    told: list[int] = []
    reply = replied(Closed([]))
    reply.then(lambda: told.append(1))
    reply.close()
    reply.close()
    assert told == [1]


def test_an_error_tells_what_was_asked_where_that_is_an_address() -> None:
    site = Site("http", "x", 80)
    short, long = httpx.ReadError(""), httpx.ReadError("")
    say_where(short, Request("GET", site, "/v2/", {}))
    assert short.request.url == "http://x/v2/"
    say_where(long, Request("GET", site, "/" + "x" * 100_000, {}))
    with pytest.raises(RuntimeError):
        _ = long.request
