# SPDX-License-Identifier: Apache-2.0
"""Transport of requests: httpx on httpcore's connection pool, with the proxies of the environment.

httpcore asks a socket for 64 KiB at a time, and gets 16 KiB of a TLS connection. Its network backend, the seam that it
documents for this, is where more is read at once.
"""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from http.cookiejar import CookieJar, DefaultCookiePolicy
from socket import SHUT_RDWR, socket
from typing import Any
from weakref import WeakSet

import h11
import httpcore
import httpx

from ...errors import UsageError, reading
from ...io.metering import Limit, MeteredTransport, log
from ...settings import KiB, MiB
from .options import RegistryOptions
from .proxies import Proxy, proxy_for

READ = MiB
"""Bytes per read of a connection."""
MAX_IDLE = 20
"""Largest number of idle connections."""
IDLE_SECONDS = 30.0
SILENT = 10.0
"""Seconds without a byte after which a host is reported as silent."""
_TLS_RECORD = 16 * KiB
_LOGGERS = ("httpcore.http11", "httpcore.http2", "httpcore.proxy", "httpcore.socks")

Silence = Callable[[float, float], None]
"""Called for a silent host, with the seconds without a byte so far and the seconds until the timeout."""


class Connections:
    """The open connections of one host: their latency, their interruption, and the report of a silent host.

    Args:
        on_silence: See `Silence`.
        handshake: Timeout of a proxy, in seconds without a byte.

    Attributes:
        latency: Seconds that the fastest TCP connection took to open; infinite before the first.
    """

    def __init__(self, on_silence: Silence, handshake: float) -> None:
        self.on_silence = on_silence
        self.handshake = handshake
        self.latency = float("inf")
        self._lock = threading.Lock()
        self._streams: WeakSet[_Stream] = WeakSet()

    def opened(self, stream: _Stream, seconds: float) -> None:
        """Count a new connection, and the seconds that it took to be made."""
        with self._lock:
            self.latency = min(self.latency, seconds)
            self._streams.add(stream)

    def replaced(self, stream: _Stream) -> None:
        """Count a connection that TLS was started on."""
        with self._lock:
            self._streams.add(stream)

    def interrupt(self) -> None:
        """Break every connection, so that all who wait for one stop at once; for another thread."""
        with self._lock:
            streams = list(self._streams)
        for stream in streams:
            interrupt(stream)


def interrupt(stream: Any) -> None:
    """Wake whoever waits for a connection (httpx's extension "network_stream"); for another thread."""
    made = stream.get_extra_info("socket")
    if made is not None:
        with suppress(OSError):
            # Not the method of a TLS socket: that one changes what another thread is using.
            socket.shutdown(made, SHUT_RDWR)


class _Stream(httpcore.NetworkStream):
    """A connection that gives much at a time, and says when nothing comes."""

    def __init__(self, inner: httpcore.NetworkStream, connections: Connections) -> None:
        self._inner = inner
        self._connections = connections
        self._tls = inner.get_extra_info("ssl_object") is not None
        self._much = False

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return up to `READ` bytes that have arrived; empty at the end."""
        if self._tls:
            data = self._wait(_TLS_RECORD, timeout)
            return data if len(data) < _TLS_RECORD else self._records(data)
        data = self._wait(READ if self._much else max_bytes, timeout)
        self._much = len(data) >= max_bytes
        return data

    def _wait(self, size: int, timeout: float | None) -> bytes:
        if timeout is None:
            timeout = self._connections.handshake  # httpcore has none for SOCKS
        if timeout <= SILENT:
            return self._inner.read(size, timeout)
        try:
            return self._inner.read(size, SILENT)
        except httpcore.ReadTimeout:
            self._connections.on_silence(SILENT, timeout - SILENT)
            return self._inner.read(size, timeout - SILENT)

    def _records(self, first: bytes) -> bytes:
        """`first`, and the TLS records behind it that are there already."""
        found, total = [first], len(first)
        # No waiting; and whatever goes wrong meets whoever reads next.
        with suppress(httpcore.ReadError):
            while total < READ // 4:
                data = self._inner.read(_TLS_RECORD, 0.0)
                if not data:
                    break
                found.append(data)
                total += len(data)
        return b"".join(found)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send all of `buffer`."""
        # What a slow host leaves of a large piece is not copied once more for each part that it takes.
        self._inner.write(memoryview(buffer), timeout)  # type: ignore[arg-type]

    def close(self) -> None:
        """Close the connection."""
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """The same connection within TLS."""
        made = _Stream(self._inner.start_tls(ssl_context, server_hostname, timeout), self._connections)
        self._connections.replaced(made)
        return made

    def get_extra_info(self, info: str) -> Any:
        """See `httpcore.NetworkStream`."""
        return self._inner.get_extra_info(info)


class _Backend(httpcore.SyncBackend):
    """Makes the connections of one pool.

    Args:
        connections: See `Connections`.
        proxy: What is connected to in place of whoever is asked; None if nothing is.
    """

    def __init__(self, connections: Connections, proxy: Proxy | None) -> None:
        self._connections = connections
        self._proxy = proxy
        self._opened = threading.local()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        """A connection."""
        started = time.monotonic()
        try:
            inner = super().connect_tcp(host, port, timeout, local_address, socket_options)
        except (httpcore.ConnectError, httpcore.ConnectTimeout) as exc:
            if self._proxy is None:
                raise
            raise httpcore.ProxyError(str(exc) or "it does not respond") from exc
        stream = _Stream(inner, self._connections)
        self._connections.opened(stream, time.monotonic() - started)
        self._opened.stream = stream
        return stream

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Close what was connected in the block if that fails: of SOCKS proxies httpcore leaves it open."""
        self._opened.stream = None
        try:
            yield
        except BaseException:
            if self._opened.stream is not None:
                self._opened.stream.close()
            raise


class Transport(httpx.BaseTransport):
    """httpcore's connection pool, as httpx's own transport uses it, over connections that are read in large pieces.

    Args:
        context: What TLS needs.
        connections: See `Connections`.
        proxy: The proxy to go through; None connects directly.
    """

    def __init__(self, context: ssl.SSLContext, connections: Connections, proxy: Proxy | None = None) -> None:
        self._backend = _Backend(connections, proxy)
        self._errors = _httpx_errors
        if proxy is not None and proxy.is_socks:
            self._errors = _socks_errors
        self._pool = httpcore.ConnectionPool(
            ssl_context=context,
            proxy=None if proxy is None else proxy.to_httpcore(context),
            max_connections=None,
            max_keepalive_connections=MAX_IDLE,
            keepalive_expiry=IDLE_SECONDS,
            network_backend=self._backend,
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """See `httpx.BaseTransport`."""
        url = request.url
        assert isinstance(request.stream, httpx.SyncByteStream)
        with self._errors(), self._backend.closing():
            response = self._pool.handle_request(
                httpcore.Request(
                    request.method,
                    httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                    headers=request.headers.raw,
                    content=request.stream,
                    extensions=request.extensions,
                )
            )
        return httpx.Response(
            response.status, headers=response.headers, stream=_Body(response), extensions=response.extensions
        )

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()


class _Body(httpx.SyncByteStream):
    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        try:
            with _httpx_errors():
                yield from self._response.iter_stream()
        except httpx.RemoteProtocolError as exc:
            raise httpx.ReadError(f"the body is not whole: {exc}") from exc

    def close(self) -> None:
        self._response.close()


@contextmanager
def _httpx_errors() -> Iterator[None]:
    """httpcore's exceptions as httpx's of the same name."""
    try:
        yield
    except (
        httpcore.TimeoutException,
        httpcore.NetworkError,
        httpcore.ProtocolError,
        httpcore.ProxyError,
        httpcore.UnsupportedProtocol,
    ) as exc:
        kind: type[httpx.TransportError] = getattr(httpx, type(exc).__name__)
        if isinstance(exc, httpcore.RemoteProtocolError) and not isinstance(exc.args[0], Exception):
            # Not what the parser of HTTP complains of: there was nothing to parse.
            kind = httpx.ReadError
        raise kind(str(exc)) from exc
    except h11.LocalProtocolError as exc:
        # httpcore lets pass what its parser says of a body that has another length than was announced.
        raise httpx.LocalProtocolError(str(exc)) from exc


@contextmanager
def _socks_errors() -> Iterator[None]:
    """The same, and what httpcore lets pass where the other side speaks no SOCKS."""
    from socksio import SOCKSError

    try:
        with _httpx_errors():
            yield
    except (SOCKSError, AssertionError) as exc:
        raise httpx.ProxyError("it speaks no SOCKS5") from exc


def new_client(
    options: RegistryOptions,
    url: httpx.URL,
    own: bool,
    connections: Connections,
    verify: bool = True,
    limit: Limit | None = None,
) -> httpx.Client:
    """The client for one origin.

    Args:
        options: TLS, and a transport to use instead of ours.
        url: Any address of the origin.
        own: Whether it is the registry, and not a host that the registry sends us to.
        connections: Where its connections are counted.
        verify: False accepts any certificate whatever the options say.
        limit: Waits where there is a limit of bandwidth.

    Raises:
        UsageError: the certificate files cannot be used.
        SourceError: a certificate file cannot be read.
        NetworkError: the proxy that the environment names cannot be used.
    """
    transport = options.transport
    if transport is None:
        proxy = proxy_for(url, options.proxy)
        # Reading the machine's authorities takes longer than a small pull; plain HTTP needs none.
        tls = url.scheme == "https" or (proxy is not None and proxy.is_tls)
        context = _tls(options, own, verify) if tls else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        transport = Transport(context, connections, proxy)
    if limit is not None or log.isEnabledFor(logging.DEBUG):
        transport = MeteredTransport(transport, limit, options.bandwidth or 0)
    _keep_secrets_out_of_logs()
    cookies = CookieJar(policy=DefaultCookiePolicy(allowed_domains=[]))
    return httpx.Client(transport=transport, cookies=cookies, trust_env=False)


def _tls(options: RegistryOptions, own: bool, verify: bool) -> ssl.SSLContext:
    for path in (options.ca_file, options.cert_file, options.key_file):
        if path is not None:
            with reading(path), open(path, "rb"):
                pass
    try:
        # For the registry, the authority given is the only one (as with the ORAS command line); the hosts that it
        # sends us to are often public ones.
        context = ssl.create_default_context(cafile=options.ca_file if own else None)
        if not own and options.ca_file:
            context.load_verify_locations(cafile=options.ca_file)
        if own and options.cert_file:
            context.load_cert_chain(options.cert_file, options.key_file, password="")
    except (ssl.SSLError, ValueError) as exc:
        raise UsageError(
            "the certificate files cannot be used "
            f"({', '.join(str(p) for p in (options.ca_file, options.cert_file, options.key_file) if p)})",
            hint="--ca-file, --cert-file and --key-file need PEM files, the key without a password",
        ) from exc
    if options.insecure or not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif not options.ca_file and not context.get_ca_certs():
        import certifi  # a dependency of httpx; for machines that have no certificate store

        context.load_verify_locations(cafile=certifi.where())
    return context


def _keep_secrets_out_of_logs() -> None:
    """httpx logs whole addresses, whose query may hold the secret of an upload, and httpcore what it sends and gets."""
    logging.getLogger("httpx").addFilter(_without_query)
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_without_values)


def _without_query(record: logging.LogRecord) -> bool:
    if isinstance(record.args, tuple):
        record.args = tuple(
            arg.copy_with(query=None) if isinstance(arg, httpx.URL) and arg.query else arg for arg in record.args
        )
    return True


def _without_values(record: logging.LogRecord) -> bool:
    record.msg = str(record.msg).partition(" ")[0]
    return True
