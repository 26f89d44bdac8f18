# SPDX-License-Identifier: Apache-2.0
"""How long to wait, and when not to."""

from __future__ import annotations

import re
import socket
import ssl
import threading
import time
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime

import httpx
import pytest

from ocibridge.errors import NetworkError
from ocibridge.stores.registry import Retry
from ocibridge.stores.registry.errors import error_from_exception
from ocibridge.stores.registry.pace import TooSlow
from ocibridge.stores.registry.proxies import Proxy
from ocibridge.stores.registry.retry import Backoff, allowed_tries, exhausted, is_transient, pause, retry_after

RETRY = Retry()


def caused(exc: Exception, cause: Exception) -> Exception:
    exc.__cause__ = cause
    return exc


def asking(value: str) -> dict[str, str]:
    return {"retry-after": value}


def test_pauses_grow_and_stay_bounded() -> None:
    for failures in range(1, 60):
        full = min(30.0, 0.5 * 2 ** (failures - 1))
        assert full / 2 <= pause(failures, RETRY) <= full


@pytest.mark.parametrize("value", ["", "soon", "-3", "1.5", "٣", "9" * 30, "Fri, 99 Foo 2026", "\x00"])
def test_retry_after_nonsense(value: str) -> None:
    assert retry_after(asking(value)) is None


def test_retry_after() -> None:
    assert retry_after(asking("7")) == 7
    moment = datetime.now(timezone.utc) + timedelta(seconds=100)
    assert 95 < (retry_after(asking(format_datetime(moment, usegmt=True))) or 0) <= 100
    assert retry_after(asking("Wed, 21 Oct 2015 07:28:00 GMT")) == 0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"ratelimit-remaining": "1", "ratelimit-reset": "9"}, None),
        ({"ratelimit-remaining": "0", "ratelimit-reset": "9"}, 9),
        ({"ratelimit-remaining": "0;w=21600"}, None),  # Docker Hub
        ({"ratelimit-remaining": "0", "ratelimit-reset": "soon"}, None),
        ({"ratelimit": '"pulls";r=0;t=30'}, 30),
        ({"ratelimit": '"a";r=5;t=30, "b";r=0;t=7;x=1, "c" ; r=0 ; t=8'}, 8),
        ({"ratelimit": '"a";r=0, ;;, "b";t=9'}, None),
    ],
)
def test_exhausted(headers: dict[str, str], seconds: float | None) -> None:
    assert exhausted(headers) == seconds


def test_tries() -> None:
    refused = caused(httpx.ConnectError("x"), ConnectionRefusedError())
    unknown = caused(httpx.ConnectError("x"), socket.gaierror())
    untrusted = caused(httpx.ConnectError("x"), ssl.SSLCertVerificationError())
    assert [allowed_tries(exc, RETRY, False) for exc in (refused, unknown, untrusted)] == [2, 1, 1]
    assert [allowed_tries(exc, RETRY, True) for exc in (refused, unknown, untrusted)] == [5, 5, 1]
    assert allowed_tries(httpx.ReadError("x"), RETRY, False) == 5
    assert allowed_tries(httpx.LocalProtocolError("x"), RETRY, True) == 1


def test_transient() -> None:
    assert [status for status in range(100, 600) if is_transient(status) and status < 507] == [
        408, 429, 500, 502, 503, 504, 506,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("exc", "words"),
    [
        (httpx.ReadTimeout("x"), "stopped responding"),
        (httpx.ConnectTimeout("x"), "does not respond"),
        (TooSlow("fewer than 9 bytes per second"), "too slow .fewer than 9 bytes"),
        (httpx.RemoteProtocolError("illegal status line"), "sent no valid HTTP response"),
        (httpx.ReadError("token=abc"), r"broke the connection \(ReadError\)"),
        (caused(httpx.ConnectError("x"), ssl.SSLError(1, "[SSL: X_Y] z")), r"broke the connection \(ConnectError\)"),
    ],
)
def test_broken_connections_in_words(exc: Exception, words: str) -> None:
    with pytest.raises(NetworkError, match=f"h/r: .*{words}") as caught:
        raise error_from_exception("h", "h/r", "pulling", exc)
    assert "abc" not in str(caught.value)


def test_a_host_that_never_answered_may_not_speak_tls() -> None:
    exc = caused(httpx.ConnectError("x"), ssl.SSLError(1, "[SSL: X_Y] z"))
    error = error_from_exception("h", "h/r", "pulling", exc, responded=False)
    assert str(error).startswith("h/r: no TLS connection to h")
    assert "--plain-http" in str(error)


def test_a_proxy_that_refuses_is_named_without_its_credentials() -> None:
    proxy = Proxy(httpx.Proxy("http://u:geheim@p.example:3128"), "HTTPS_PROXY")
    refused = error_from_exception("h", "h/r", "pulling", httpx.ProxyError("403 Forbidden"), proxy=proxy)
    assert re.match(r"h/r: the proxy p\.example:3128 \(HTTPS_PROXY\) does not let us through", str(refused))
    assert "NO_PROXY" in str(refused)
    broken = error_from_exception("h", "h/r", "pulling", httpx.ReadError("x"), proxy=proxy)
    assert "h (through the proxy p.example:3128 (HTTPS_PROXY)) broke the connection" in str(broken)
    assert "geheim" not in f"{refused}{broken}"


def test_stop_wakes_those_who_wait() -> None:
    backoff = Backoff()
    backoff.delay(60)
    timer = threading.Timer(0.1, backoff.stop)
    timer.start()
    start = time.monotonic()
    with pytest.raises(NetworkError, match="closed"):
        backoff.wait()
    timer.join()
    assert time.monotonic() - start < 5


def test_hold_is_for_everybody() -> None:
    backoff = Backoff()
    backoff.delay(0.2)
    backoff.delay(0.01)
    start = time.monotonic()
    backoff.wait()
    assert time.monotonic() - start >= 0.15
