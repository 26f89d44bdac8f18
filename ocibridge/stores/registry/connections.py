# SPDX-License-Identifier: Apache-2.0
"""Connections to a host: TLS, certificates, no cookies, no compression."""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections.abc import Mapping
from functools import lru_cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib import metadata
from typing import Any
from urllib.request import getproxies

import httpx

from ...errors import UsageError, reading
from .lines import IDLE, IDLE_SECONDS, Connected, Lines
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
        _log.addFilter(_hide_query)
        # Reading the machine's authorities takes longer than a small pull; plain HTTP needs none.
        context = None if own and origin.scheme == "http" else _tls(options, own)
        self._transport: httpx.BaseTransport
        # As in Go's net/http, which every other registry client uses: no proxy for the machine itself.
        if is_local(origin.host) or not getproxies().keys() - {"no"}:
            self._transport = Lines(context, connected)
        else:
            self._transport = _Proxied(context or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), connected)

    def send(self, request: httpx.Request) -> httpx.Response:
        """Send a request as it stands, and give the response with its body unread.

        What the client of httpx does around its transports (cookies, hooks, redirects) is not for a registry, and takes
        as long as all that we do.

        Raises:
            httpx.HTTPError: the line broke.
        """
        try:
            response = self._transport.handle_request(request)
        except httpx.RequestError as exc:
            exc.request = request
            raise
        response.request = request
        if _log.isEnabledFor(logging.INFO):
            url = request.url.copy_with(raw_path=request.extensions.get("target", request.url.raw_path))
            _log.info('HTTP Request: %s %s "%d"', request.method, url, response.status_code)
        return response

    def close(self) -> None:
        """Give back all connections."""
        self._transport.close()


class _Proxied(httpx.BaseTransport):
    """A client of httpx, which knows the proxies that the environment names, and how to get through them."""

    def __init__(self, verify: ssl.SSLContext, connected: Connected) -> None:
        cookies = CookieJar(policy=DefaultCookiePolicy(allowed_domains=[]))
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=IDLE, keepalive_expiry=IDLE_SECONDS)
        self._client = httpx.Client(verify=verify, cookies=cookies, limits=limits, trust_env=True)
        self._connected = connected
        self._connecting = threading.local()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        target: bytes | None = request.extensions.pop("target", None)
        if target is not None:
            request.url = request.url.copy_with(raw_path=target)
        request.extensions = {**request.extensions, "trace": self._trace}
        return self._client.send(request, auth=None, stream=True, follow_redirects=False)

    def close(self) -> None:
        self._client.close()

    def _trace(self, event: str, details: Mapping[str, Any]) -> None:
        if event == "connection.connect_tcp.started":
            self._connecting.started = time.monotonic()
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            self._connected(details["return_value"], time.monotonic() - self._connecting.started)


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


@lru_cache(maxsize=1)
def user_agent() -> str:
    """`ocibridge/<version>`."""
    try:
        return f"ocibridge/{metadata.version('ocibridge')}"
    except metadata.PackageNotFoundError:
        return "ocibridge/0"
