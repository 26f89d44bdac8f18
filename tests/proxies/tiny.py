# SPDX-License-Identifier: Apache-2.0
"""Proxies of the package tiny-proxy: SOCKS5 (RFC 1928, RFC 1929) and HTTP tunnels, over TLS too."""

from __future__ import annotations

import logging
import ssl
import threading
from concurrent.futures import Future
from types import TracebackType
from typing import Any

import anyio
import tiny_proxy
from anyio.abc import SocketAttribute
from anyio.from_thread import BlockingPortal
from anyio.streams.tls import TLSListener

from .names import resolve


class _Proxy:
    """A handler of tiny-proxy behind a port, with the names of `resolve`.

    Args:
        kind: Class that talks to one client.
        scheme: Of its address.
        credentials: User and password that it asks for.
        tls: What it needs to speak TLS itself.

    Attributes:
        host: `127.0.0.1:PORT`.
        url: Its address, without credentials.
        targets: `HOST:PORT` of every connection that it was asked for, with the name as it came.
    """

    def __init__(
        self, kind: type[Any], scheme: str, credentials: tuple[str, str] | None, tls: ssl.SSLContext | None
    ) -> None:
        self.targets: list[str] = []
        self._scheme = scheme
        self._tls = tls
        self._handler = _handler(kind, credentials, self.targets)
        self._started: Future[tuple[anyio.CancelScope, BlockingPortal, int]] = Future()
        self._thread = threading.Thread(target=anyio.run, args=(self._run,))

    async def _run(self) -> None:
        listener: Any = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
        port = listener.extra(SocketAttribute.local_port)
        if self._tls:
            listener = TLSListener(listener, self._tls)
        async with BlockingPortal() as portal, listener:
            with anyio.CancelScope() as scope:
                self._started.set_result((scope, portal, port))
                await listener.serve(self._handler.handle)

    def __enter__(self) -> Any:
        # It logs as an error what tests do to it on purpose.
        logging.getLogger("tiny_proxy").setLevel(logging.CRITICAL)
        self._thread.start()
        self._scope, self._portal, port = self._started.result(10)
        self.host = f"127.0.0.1:{port}"
        self.url = f"{self._scheme}://{self.host}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._portal.call(self._scope.cancel)
        self._thread.join()


class Socks5Proxy(_Proxy):
    """See `_Proxy`."""

    def __init__(self, credentials: tuple[str, str] | None = None) -> None:
        super().__init__(tiny_proxy.Socks5Proxy, "socks5", credentials, None)


class ConnectProxy(_Proxy):
    """Knows tunnels only. See `_Proxy`."""

    def __init__(self, credentials: tuple[str, str] | None = None, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(tiny_proxy.HttpProxy, "https" if tls else "http", credentials, tls)


def _handler(kind: type[Any], credentials: tuple[str, str] | None, targets: list[str]) -> Any:
    class Talk(kind):  # type: ignore[misc]
        async def negotiate(self) -> tuple[str, int]:
            host, port = await super().negotiate()
            targets.append(f"{host}:{port}")
            try:
                return resolve(host), port
            except OSError:
                return "127.0.0.1", 1  # is refused, which tiny-proxy tells in words of its own

    handlers = {
        tiny_proxy.Socks5Proxy: tiny_proxy.Socks5ProxyHandler,
        tiny_proxy.HttpProxy: tiny_proxy.HttpProxyHandler,
    }
    user, password = credentials or (None, None)

    handler = handlers[kind]()
    handler.create_proxy = lambda stream: Talk(stream, username=user, password=password)
    return handler
