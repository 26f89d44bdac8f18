# SPDX-License-Identifier: Apache-2.0
"""Answers and broken lines, as errors (distribution-spec, "Error Codes")."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import httpx

from ...errors import AuthenticationError, IntegrityError, NetworkError, NotFound, OcibridgeError, StoreError
from .pace import TooSlow

_HTTPS_SPOKEN = "HTTP request to an HTTPS server"


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole response whose body is small.

    Attributes:
        status: HTTP status.
        headers: Header fields; see `messages.Reply`.
        body: The body, cut at the limit of the call where it is an error.
        where: What was asked in the end, after redirects.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    where: str

    @property
    def url(self) -> httpx.URL:
        """What was asked in the end."""
        return httpx.URL(self.where)


def error_code(answer: Answer) -> tuple[str | None, str | None]:
    """Code and message of the first error in an answer, if it has any."""
    try:
        document = json.loads(answer.body)
        first = document["errors"][0]
        code, message = first.get("code"), first.get("message")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None, None
    return (
        printable(code, 60) if isinstance(code, str) and code else None,
        printable(message, 200) if isinstance(message, str) and message else None,
    )


def refused(host: str, owner: str, what: str, answer: Answer) -> OcibridgeError:
    """The error for an answer that is not the one hoped for.

    Args:
        host: Registry host, for the hint.
        owner: Host and repository.
        what: The operation, as a noun: `pulling the manifest v1`.
        answer: The answer.
    """
    code, text = error_code(answer)
    detail = f" ({': '.join(part for part in (code, text) if part)})" if code or text else ""
    message = f"{owner}: {what} failed with status {answer.status}{detail}"
    status = answer.status
    if code == "DIGEST_INVALID":
        return IntegrityError(
            f"{owner}: {what} failed because the registry received other bytes than were promised",
            hint="the source changed while it was read, or the line corrupts data; run the command again",
        )
    if status == 401:
        return AuthenticationError(message, hint=f"run 'ocibridge login {host}'", status=status, code=code)
    if status == 403:
        hint = f"check that the account may do this, or run 'ocibridge login {host}' with another one"
        return AuthenticationError(message, hint=hint, status=status, code=code)
    if status == 404:
        return NotFound(message, hint="check the name, the tag and your access rights", status=status, code=code)
    return StoreError(message, hint=_hint(answer, code), status=status, code=code)


def _hint(answer: Answer, code: str | None) -> str:
    if answer.status == 400 and _HTTPS_SPOKEN.encode() in answer.body:
        return "the registry speaks HTTPS; use --no-plain-http"
    if answer.status == 429:
        return "wait until the registry's rate limit allows more, or log in for a higher one"
    if answer.status == 413:
        return "the registry or a proxy before it limits the size of a request; raise that limit"
    if code in ("MANIFEST_BLOB_UNKNOWN", "MANIFEST_INVALID"):
        return "the registry does not accept this manifest; it may have removed a blob meanwhile, so push again"
    if code in ("UNSUPPORTED", "DENIED"):
        return "the registry does not allow this operation; ask its administrator"
    if 300 <= answer.status < 400:
        return "the registry moved; use its new name"
    if answer.status >= 500:
        return "the registry has a problem of its own; try again later"
    return "the registry, or a proxy before it, does not take this request; ask its administrator"


def broken(host: str, owner: str, what: str, exc: Exception) -> NetworkError:
    """The error for a host that could not be reached, or a line that stayed broken. See `refused`."""
    for cause in causes(exc):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return NetworkError(
                f"{owner}: the TLS certificate of {host} is not trusted ({cause.verify_message or 'not verified'})",
                hint="name the authority that signed it with --ca-file, or skip the check with --insecure",
            )
        if isinstance(cause, ssl.SSLError):
            reason = printable(getattr(cause, "reason", None) or "TLS error", 80).replace("_", " ").lower()
            return NetworkError(
                f"{owner}: no TLS connection to {host} ({reason})",
                hint="use --plain-http if the registry speaks HTTP, --cert-file if it asks for a client certificate",
            )
        if isinstance(cause, socket.gaierror):
            return NetworkError(f"{owner}: the host {host} has no address", hint="check the name and your network")
        if isinstance(cause, ConnectionRefusedError):
            return NetworkError(
                f"{owner}: {host} refused the connection", hint="check the port, and that the registry is running"
            )
    if isinstance(exc, httpx.LocalProtocolError):
        return NetworkError(
            f"{owner}: {what} failed because the request to {host} would not be a valid one",
            hint="check the names and the credentials that were given: there may be a line break, or more than ASCII",
        )
    if isinstance(exc, httpx.ConnectTimeout):
        return NetworkError(f"{owner}: {host} does not answer", hint="check the name, the port and your network")
    if isinstance(exc, TooSlow):
        return NetworkError(
            f"{owner}: {what} failed because the line to {host} is too slow ({exc})",
            hint="check the network; try again later",
        )
    if isinstance(exc, httpx.TimeoutException):
        return NetworkError(f"{owner}: {what} failed because {host} stopped answering", hint="try again later")
    if isinstance(exc, httpx.ProxyError):
        return NetworkError(f"{owner}: the proxy before {host} refused", hint="check HTTPS_PROXY and NO_PROXY")
    if isinstance(exc, httpx.RemoteProtocolError) and not _hung_up(exc):
        return NetworkError(
            f"{owner}: {what} failed because {host} spoke no HTTP ({type(exc).__name__})",
            hint="check the host and the port, and --plain-http",
        )
    return NetworkError(
        f"{owner}: {what} failed because {host} broke the connection ({type(exc).__name__})",
        hint="try again; if it stays so, check the network, and --plain-http",
    )


def _hung_up(exc: httpx.RemoteProtocolError) -> bool:
    """Whether the line ended too early, which httpx reports as it reports an answer that is no HTTP."""
    return any(words in str(exc) for words in ("disconnected", "closed connection", "ended early"))


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
