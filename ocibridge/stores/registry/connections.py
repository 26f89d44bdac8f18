# SPDX-License-Identifier: Apache-2.0
"""Connections to a host: TLS, certificates, no cookies, no compression."""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any
from urllib.request import getproxies

import httpx

from ...content import PieceReader
from ...errors import UsageError, reading
from .lines import IDLE, IDLE_SECONDS, Connected, Lines
from .messages import CHALLENGES, Reply, Request, say_where
from .options import RegistryOptions, is_local

_log = logging.getLogger("httpx")


class Connections:
    """Connections to the registry itself (`own`), or to the hosts that it sends us to.

    Args:
        options: What TLS needs.
        own: Which of them.
        origin: Address of the registry.
        connected: See `Connected`.

    Raises:
        UsageError: the certificate files cannot be used.
        SourceError: one of them cannot be read.
    """

    def __init__(self, options: RegistryOptions, own: bool, origin: httpx.URL, connected: Connected) -> None:
        # Reading the machine's authorities takes longer than a small pull; plain HTTP needs none.
        context = None if own and origin.scheme == "http" else _tls(options, own)
        self._way: Lines | _Proxied
        # As in Go's net/http, which every other registry client uses: no proxy for the machine itself.
        if is_local(origin.host) or not getproxies().keys() - {"no"}:
            self._way = Lines(context, connected)
        else:
            self._way = _Proxied(context or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), connected)

    def send(self, request: Request) -> Reply:
        """Send a request as it stands, and give the answer with its body unread.

        Raises:
            httpx.HTTPError: the line broke.
        """
        try:
            return self._way.send(request)
        except httpx.HTTPError as exc:
            say_where(exc, request)
            raise

    def close(self) -> None:
        """Give back all connections."""
        self._way.close()


class _Proxied:
    """A client of httpx, which knows the proxies that the environment names, and how to get through them."""

    def __init__(self, verify: ssl.SSLContext, connected: Connected) -> None:
        # Its log names whole addresses, and a query may hold the secret of an upload.
        _log.addFilter(_hide_query)
        cookies = CookieJar(policy=DefaultCookiePolicy(allowed_domains=[]))
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=IDLE, keepalive_expiry=IDLE_SECONDS)
        self._client = httpx.Client(verify=verify, cookies=cookies, limits=limits, trust_env=True)
        self._connected = connected
        self._connecting = threading.local()

    def send(self, request: Request) -> Reply:
        length = {} if request.length is None else {"Content-Length": str(request.length)}
        patience = httpx.Timeout(**request.patience._asdict(), pool=None)
        try:
            sent = httpx.Request(
                request.method,
                request.where,
                headers={**request.headers, **length},
                stream=_Sent(request.body),
                extensions={"timeout": patience.as_dict(), "trace": self._trace},
            )
        except (httpx.InvalidURL, UnicodeEncodeError) as exc:
            raise httpx.LocalProtocolError("this cannot be sent") from exc
        response = self._client.send(sent, auth=None, stream=True, follow_redirects=False)
        line = response.extensions.get("network_stream")
        headers = dict(response.headers)
        if CHALLENGES in headers:
            headers[CHALLENGES] = "\n".join(response.headers.get_list(CHALLENGES))
        return Reply(response.status_code, headers, _Received(response), request, line)

    def close(self) -> None:
        self._client.close()

    def _trace(self, event: str, details: Mapping[str, Any]) -> None:
        if event == "connection.connect_tcp.started":
            self._connecting.started = time.monotonic()
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            self._connected(details["return_value"], time.monotonic() - self._connecting.started)


class _Sent(httpx.SyncByteStream):
    """A body as httpx sends it."""

    def __init__(self, body: Iterable[bytes]) -> None:
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._body)


class _Received:
    """A body as httpx reads it."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self._pieces = response.iter_raw()
        self.readinto = PieceReader(self._pieces).readinto

    def __iter__(self) -> Iterator[bytes]:
        return self._pieces

    def close(self) -> None:
        self._response.close()


def decoded(reply: Reply) -> Iterator[bytes]:
    """The body of an answer without its `Content-Encoding`, as far as httpx knows that.

    Raises:
        httpx.HTTPError: the line broke, or the body is damaged.
    """
    coding = [(b"Content-Encoding", reply.headers.get("content-encoding", "").encode())]
    return httpx.Response(200, headers=coding, stream=_Sent(reply.body)).iter_bytes()


def _tls(options: RegistryOptions, own: bool) -> ssl.SSLContext:
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
    if options.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif not options.ca_file and not context.get_ca_certs():
        import certifi  # a dependency of httpx; for machines that have no certificate store

        context.load_verify_locations(cafile=certifi.where())
    return context


def _hide_query(record: logging.LogRecord) -> bool:
    if isinstance(record.args, tuple):
        record.args = tuple(
            arg.copy_with(query=None) if isinstance(arg, httpx.URL) and arg.query else arg for arg in record.args
        )
    return True
