# SPDX-License-Identifier: Apache-2.0
"""Responses and broken connections, as errors (distribution-spec, "Error Codes")."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from socket import gaierror

import httpx

from ...errors import AuthenticationError, IntegrityError, NetworkError, NotFound, OcibridgeError, StoreError
from .pace import TooSlow
from .proxies import Proxy


def error_code(response: httpx.Response) -> tuple[str | None, str | None]:
    """Code and message of the first error in a response, if it has any."""
    try:
        document = json.loads(response.content)
        first = document["errors"][0]
        code, message = first.get("code"), first.get("message")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None, None
    return (
        printable(code, 60) if isinstance(code, str) and code else None,
        printable(message, 200) if isinstance(message, str) and message else None,
    )


def error_from_response(host: str, owner: str, what: str, response: httpx.Response) -> OcibridgeError:
    """The error for a response that is not the one hoped for.

    Args:
        host: Registry host, for the hint.
        owner: Host and repository.
        what: The operation, as a noun: `pulling the manifest v1`.
        response: The response, its body read.
    """
    status = response.status_code
    code, text = error_code(response)
    detail = f" ({': '.join(part for part in (code, text) if part)})" if code or text else ""
    message = f"{owner}: {what} failed with status {status}{detail}"
    if code == "DIGEST_INVALID":
        return IntegrityError(
            f"{owner}: {what} failed because the registry received other bytes than were promised",
            hint="the source changed while it was read, or the network corrupts data; run the command again",
        )
    if code is None and status in (200, 400, 404, 405, 501) and is_web_page(response):
        kind = NotFound if status == 404 else StoreError
        return kind(
            f"{owner}: {what} failed because {host} responded as a web server, not as a registry (status {status})",
            hint="check the host and the port",
            status=status,
        )
    if status == 401:
        return AuthenticationError(message, hint=f"run 'ocibridge login {host}'", status=status, code=code)
    if status == 403:
        hint = f"check that the account may do this, or run 'ocibridge login {host}' with another one"
        return AuthenticationError(message, hint=hint, status=status, code=code)
    if status == 404:
        return NotFound(message, hint="check the name, the tag and your access rights", status=status, code=code)
    return StoreError(message, hint=_hint(status, code), status=status, code=code)


def is_web_page(response: httpx.Response) -> bool:
    """Return whether a response is a page for people, as no registry sends."""
    media_type: str = response.headers.get("content-type", "")
    return media_type.partition(";")[0].strip().lower() == "text/html"


def _hint(status: int, code: str | None) -> str:
    if status == 429:
        return "wait until the registry's rate limit allows more, or log in for a higher one"
    if status == 413:
        return "the registry or a proxy before it limits the size of a request; raise that limit"
    if code in ("MANIFEST_BLOB_UNKNOWN", "MANIFEST_INVALID"):
        return "the registry does not accept this manifest; it may have removed a blob meanwhile, so push again"
    if code in ("UNSUPPORTED", "DENIED"):
        return "the registry does not allow this operation; ask its administrator"
    if 300 <= status < 400:
        return "the registry moved; use its new name"
    if status >= 500:
        return "the registry has a problem of its own; try again later"
    return "the registry, or a proxy before it, does not take this request; ask its administrator"


def proxy_refused(owner: str, proxy: Proxy, reason: str) -> NetworkError:
    """The error for a proxy that cannot be reached, or does not pass on what it is asked."""
    return NetworkError(
        f"{owner}: {proxy} does not let us through ({printable(reason, 80)})",
        hint=f"check {proxy.variable}, which has to hold the proxy's credentials if it wants some, and NO_PROXY",
    )


def error_from_exception(
    host: str,
    owner: str,
    what: str,
    exc: Exception,
    responded: bool = True,
    tries: int = 1,
    proxy: Proxy | None = None,
) -> NetworkError:
    """The error for a host that could not be reached, or a connection that stayed broken.

    Args:
        host: Who was asked.
        owner: See `error_from_response`.
        what: See `error_from_response`.
        exc: What the last try ended with.
        responded: Whether the host has ever sent a response.
        tries: How many tries in a row ended without any progress.
        proxy: What it was asked through.
    """
    if proxy is not None:
        if isinstance(exc, httpx.ProxyError):
            return proxy_refused(owner, proxy, str(exc))
        host = f"{host} (through {proxy})"
    for cause in causes(exc):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return NetworkError(
                f"{owner}: the TLS certificate of {host} is not trusted ({cause.verify_message or 'not verified'})",
                hint="name the authority that signed it with --ca-file, or skip the check with --insecure",
            )
        if isinstance(cause, ssl.SSLError) and not responded:
            reason = printable(getattr(cause, "reason", None) or "TLS error", 80).replace("_", " ").lower()
            return NetworkError(
                f"{owner}: no TLS connection to {host} ({reason})",
                hint="use --plain-http if the registry speaks HTTP, --cert-file if it asks for a client certificate",
            )
        if isinstance(cause, gaierror):
            return NetworkError(f"{owner}: the host {host} has no address", hint="check the name and your network")
        if isinstance(cause, ConnectionRefusedError):
            return NetworkError(
                f"{owner}: {host} refused the connection", hint="check the port, and that the registry is running"
            )
    often = f" {tries} times in a row" if tries > 1 else ""
    if isinstance(exc, httpx.LocalProtocolError):
        return NetworkError(
            f"{owner}: {what} failed because the request to {host} would not be a valid one",
            hint="check the names and the credentials that were given: there may be a line break, or more than ASCII",
        )
    if isinstance(exc, httpx.ConnectTimeout):
        return NetworkError(f"{owner}: {host} does not respond", hint="check the name, the port and your network")
    if isinstance(exc, TooSlow):
        return NetworkError(
            f"{owner}: {what} failed because the connection to {host} is too slow ({exc})",
            hint="check the network; try again later",
        )
    if isinstance(exc, httpx.TimeoutException):
        return NetworkError(f"{owner}: {what} failed because {host} stopped responding{often}", hint="try again later")
    if isinstance(exc, httpx.RemoteProtocolError):
        return NetworkError(
            f"{owner}: {what} failed because {host} sent no valid HTTP response ({type(exc).__name__})",
            hint="check the host and the port, and --plain-http",
        )
    return NetworkError(
        f"{owner}: {what} failed because {host} broke the connection{often} ({type(exc).__name__})",
        hint="try again; if it stays so, check the network, and --plain-http",
    )


def causes(exc: BaseException) -> Iterator[BaseException]:
    """An exception and all that led to it."""
    current: BaseException | None = exc
    while current is not None:
        yield current
        current = current.__cause__ or current.__context__


def printable(text: str, length: int) -> str:
    """`text` on one line without control characters, cut to `length` characters."""
    clean = "".join(char if char.isprintable() else " " for char in text[: 2 * length])
    return clean if len(clean) <= length else clean[: length - 3] + "..."
