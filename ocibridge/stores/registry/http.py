# SPDX-License-Identifier: Apache-2.0
"""Send requests to a registry: tokens, redirects, limits, retries. All requests are sent here."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import httpx
import oras.provider

from ...about import USER_AGENT
from ...errors import LimitError, OcibridgeError, StoreError
from ...settings import KiB, MiB
from .auth import Scope, parse_challenges
from .body import ContentBody, SteadyBody
from .errors import error_code, error_from_exception, error_from_response, proxy_refused
from .host import UNSAFE, Host
from .hosts import Hosts
from .options import RegistryOptions, without_secrets
from .pace import Pace
from .proxies import proxy_for
from .retry import Attempts, Problem, is_transient

MAX_REDIRECTS = 5
MAX_REFUSALS = 20
"""Tokens that may be refused in a row, each after other requests had it, before a request is given up."""
_FOLLOWED = {301: ("GET", "HEAD"), 302: ("GET", "HEAD"), 303: ("GET", "HEAD"), 307: None, 308: None}
"""Redirects, and the methods for which they are followed; None is any."""
_ERROR_BODY = 64 * KiB
_DECODED = 16 * KiB
_SMALL = 16 * KiB
_OURS = ("host", "content-length", "transfer-encoding")
"""Fields that nobody else says: where a request ends, and whom it is for."""
_OF_THE_MESSAGE = (b"content-encoding", b"transfer-encoding")
"""Fields that are true of a body as it is sent, and not of one in memory."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request, as often as it has to be sent.

    Attributes:
        host: The registry.
        method: HTTP method.
        url: Path on the registry, or a whole URL.
        what: The operation for messages, as a noun: `pulling the manifest v1`.
        owner: Whose operation it is: host and repository.
        scope: What the token has to allow; None, for a token server, sends no credentials whatever the host, and
            never waits for a permit (`RateLimits`).
        headers: Fields of the request.
        body: Body of the request; one that is iterated can be so again.
        limit: Largest body accepted in a response that is read as a whole, in bytes; None is any.
        follow: Whether redirects are followed.
        identity: Whether the body must come without a `Content-Encoding`, which would change its bytes.
    """

    host: Host
    method: str
    url: str
    what: str
    owner: str
    scope: Scope | None = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | ContentBody | None = None
    limit: int | None = 4 * MiB
    follow: bool = True
    identity: bool = False

    def as_head(self) -> Call:
        """The same as a HEAD request, without a range; no redirect is followed."""
        headers = {name: value for name, value in self.headers.items() if name.lower() != "range"}
        return replace(self, method="HEAD", headers=headers, follow=False)


class RegistryHTTP(oras.provider.Registry):  # type: ignore[misc]
    """An ORAS client whose every request goes through one `httpx.Client` a host.

    Args:
        hostname: Registry host with its port; credentials in `options` are for this host only.
        options: See `RegistryOptions`.
        hosts: What is known of hosts, to share with other clients; whoever made it closes it. None makes its own.
    """

    def __init__(
        self, hostname: str | None = None, options: RegistryOptions | None = None, hosts: Hosts | None = None
    ) -> None:
        self._options = options or RegistryOptions()
        self._owns_hosts = hosts is None
        self._hosts = hosts or Hosts()
        self._known: dict[str, Host] = {}
        super().__init__(hostname=hostname)
        if self._owns_hosts:
            # Nobody closes the stock client: its connections go with it.
            weakref.finalize(self, self._hosts.close)

    def host(self, name: str) -> Host:
        """State of the registry host."""
        host = self._known.get(name)
        if host is None:
            options = self._options if name == self.hostname else without_secrets(self._options)
            host = self._known[name] = self._hosts.get(name, options)
        return host

    def close(self) -> None:
        """Give back connections, unless they are shared."""
        self.session.close()
        if self._owns_hosts:
            self._hosts.close()

    # Whole responses.

    def request(self, call: Call, accept: tuple[int, ...] | None = (200,)) -> httpx.Response:
        """Send until there is a response with one of the statuses in `accept`; None accepts what is not transient.

        Returns:
            The response with its body in memory.

        Raises:
            StoreError: the registry refused, or could not be reached.
            LimitError: the body is larger than `call.limit`.
        """
        attempts = self.attempts(call)
        while True:
            try:
                response = self.once(call)
            except httpx.HTTPError as exc:
                attempts.failed(exc)
                continue
            status = response.status_code
            if not is_transient(status) if accept is None else status in accept:
                return response
            attempts.failed(response)

    def once(self, call: Call) -> httpx.Response:
        """Send once and read the response, whatever its status.

        Raises:
            httpx.HTTPError: the connection broke.
            OcibridgeError: see `request`.
        """
        with closing(self.open(call)) as response:
            return self.read(call, response)

    def read(self, call: Call, response: httpx.Response) -> httpx.Response:
        """A response with its body in memory; of one that is no success 64 KiB at most.

        Raises:
            httpx.HTTPError: the connection broke.
            LimitError: the body is larger than `call.limit`.
            StoreError: the body is encoded, and must not be.
        """
        if call.identity and response.is_success:
            check_identity(call, response)
        limit = call.limit if response.is_success else _ERROR_BODY
        data = bytearray()
        pace, start = Pace(call.host.options.timeouts), time.monotonic()
        # A HEAD is read too: only a response at its end gives its connection back.
        for piece in _decoded(response):
            data += piece
            now = time.monotonic()
            pace.moved(len(piece), now - start)
            start = now
            if limit is not None and len(data) > limit:
                break
        if limit is not None and len(data) > limit:
            if response.is_success:
                raise LimitError(
                    f"{call.owner}: the response to {call.what} is larger than {limit} bytes",
                    hint="check the name; if it is right, do not trust this registry",
                )
            del data[limit:]
        headers = [(name, value) for name, value in response.headers.raw if name.lower() not in _OF_THE_MESSAGE]
        return httpx.Response(response.status_code, headers=headers, content=bytes(data), request=response.request)

    def attempts(self, call: Call, error: Callable[[Problem, int], OcibridgeError] | None = None) -> Attempts:
        """The tries of a call; `error` makes the error that they end with, if it is not to be `self.error`."""
        host = call.host
        return Attempts(host.backoff, host.options.retries, error or partial(self.error, call))

    def error(self, call: Call, problem: Problem, tries: int = 1) -> OcibridgeError:
        """The error to raise for a response or exception that ends an operation."""
        host = call.host
        if isinstance(problem, Exception):
            name, responded = host.name, host.backoff.responded
            url = (_url_of(problem) if isinstance(problem, httpx.RequestError) else None) or host.origin
            if not host.is_own(url):
                name, responded = url.netloc.decode("ascii", "replace"), False
            return error_from_exception(
                name, call.owner, call.what, problem, responded, tries, proxy_for(url, host.options.proxy)
            )
        proxy = proxy_for(problem.url, host.options.proxy) if problem.status_code == 407 else None
        if proxy is not None:
            return proxy_refused(call.owner, proxy, "status 407, wrong credentials or none")
        error = error_from_response(host.name, call.owner, call.what, problem)
        error.message = host.auth.redact(error.message)
        if problem.status_code == 400 and host.options.plain_http and error_code(problem)[0] is None:
            error.hint = "if the registry speaks HTTPS, use --no-plain-http; else ask its administrator"
        elif problem.status_code == 401:
            error.hint = host.auth.advice
        elif problem.status_code == 403 and host.auth.complaint:
            error.hint = f"{error.hint}; {host.auth.complaint}"
        error.args = (error.message,)
        return error

    # Responses with their body unread.

    def open(self, call: Call) -> httpx.Response:
        """Send once, follow redirects, and give the response with its body unread. The caller closes it.

        Raises:
            httpx.HTTPError: the connection broke.
            OcibridgeError: the registry pointed to an address that is not safe, or its token server refused.
        """
        limiter = call.host.limiter
        if limiter is None or call.scope is None:
            return self._follow(call)
        permit = limiter.take(self._ask_remaining)
        try:
            response = self._follow(call)
        except BaseException:
            permit.release()
            raise
        if response.is_closed:
            permit.release()
        else:
            response.stream = _Released(response.stream, permit.release)
        return response

    def _ask_remaining(self, call: Call) -> None:
        with closing(self._follow(call)) as response:
            self.read(call, response)

    def _follow(self, call: Call) -> httpx.Response:
        host = call.host
        host.backoff.wait()
        url = host.resolve(call.url, f"{call.owner}: {call.what}")
        for _ in range(MAX_REDIRECTS + 1):
            response = self._authorized(call, url)
            url = response.url
            if host.limiter is not None and call.scope is not None and host.is_own(url):
                host.limiter.responded(call, response.headers)
            methods = _FOLLOWED.get(response.status_code, ())
            location = response.headers.get("location")
            if not (call.follow and location) or (methods is not None and call.method not in methods):
                return response
            with closing(response):
                self.read(call, response)
            url = host.resolve(location, f"{call.owner}: {call.what}", url)
        raise StoreError(f"{call.owner}: {call.what} was redirected more than {MAX_REDIRECTS} times", hint=UNSAFE)

    def _authorized(self, call: Call, url: httpx.URL) -> httpx.Response:
        """Send with the token that is known; where it is refused, with the next one, as long as that may help."""
        host, scope = call.host, call.scope
        if scope is None or not host.is_own(url):
            return self._send(call, url)
        ask = self._token_exchange(host)
        used = host.auth.known(scope, ask)
        response = self._send(call, url, used)
        for _ in range(MAX_REFUSALS):
            if response.status_code != 401:
                if used:
                    host.auth.accepted(scope, used)
                return response
            url = response.url
            # Its connection may be the one on which the token is asked for.
            with closing(response):
                response = self.read(call, response)
            challenges = parse_challenges(response.headers.get_list("www-authenticate"))
            used = host.auth.respond(challenges, scope, used, ask)
            if used is None:
                return response
            response = self._send(call, url, used)
        return response

    def _send(self, call: Call, url: httpx.URL, authorization: str | None = None) -> httpx.Response:
        host = call.host
        if host.limiter is not None and call.scope is not None and host.is_own(url):
            host.limiter.space()
        host.backoff.tally.request()
        request = self._request(call, url, authorization)
        try:
            response = host.client(url).send(request, auth=None, stream=True, follow_redirects=False)
        except httpx.HTTPError as exc:
            host.failed(exc)
            if isinstance(exc, httpx.NetworkError | httpx.RemoteProtocolError) and self._is_tls(call, url):
                return self._send(call, url.copy_with(scheme="https"), authorization)
            raise
        if response.status_code == 400 and self._is_tls(call, url):
            response.close()
            return self._send(call, url.copy_with(scheme="https"), authorization)
        if host.is_own(url):
            host.responded(response.headers)
        return response

    @staticmethod
    def _is_tls(call: Call, url: httpx.URL) -> bool:
        return url.scheme == "http" and call.host.speaks_tls(url)

    def _request(self, call: Call, url: httpx.URL, authorization: str | None) -> httpx.Request:
        headers = {"User-Agent": USER_AGENT, "Accept-Encoding": "identity", "Accept": "*/*"}
        # Headers of `set_header` are for registries, and not for hosts that they redirect to.
        own = self.headers if call.scope is not None and call.host.is_own(url) else {}
        for name, value in (*own.items(), *call.headers.items()):
            if name.lower() not in _OURS and not (name in own and name.lower() == "authorization"):
                headers[name.title()] = value
        if authorization:
            headers["Authorization"] = authorization
        body: Any = call.body or (b"" if call.method in ("POST", "PUT", "PATCH") else None)
        if isinstance(body, ContentBody):
            headers["Content-Length"] = str(body.length)
            body = SteadyBody(body, call.host.options.timeouts) if body.length > _SMALL else body
        try:
            return httpx.Request(
                call.method, url, headers=headers, content=body, extensions={"timeout": call.host.timeout(call.method)}
            )
        except (httpx.InvalidURL, UnicodeEncodeError) as exc:
            raise httpx.LocalProtocolError("this cannot be sent") from exc

    def _token_exchange(self, host: Host) -> Callable[[str, Mapping[str, str], bytes | None], httpx.Response]:
        def ask(url: str, headers: Mapping[str, str], form: bytes | None) -> httpx.Response:
            method = "GET" if form is None else "POST"
            call = Call(
                host, method, url, "asking for a token", host.name, None, headers, form, limit=MiB, follow=False
            )
            return self.request(call, accept=None)

        return ask


class _Released(httpx.SyncByteStream):
    """A body that calls `release` when it is closed."""

    def __init__(self, stream: Any, release: Callable[[], None]) -> None:
        self._stream = stream
        self._release = release

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._stream)

    def close(self) -> None:
        try:
            self._stream.close()
        finally:
            self._release()


def _decoded(response: httpx.Response) -> Iterator[bytes]:
    """The body without its `Content-Encoding`, as far as httpx knows that, in pieces of a bounded size."""
    encoding = response.headers.get("content-encoding")
    if encoding is None or not encoding.isascii():
        return raw_body(response)
    pieces = (
        piece[start : start + _DECODED] for piece in raw_body(response) for start in range(0, len(piece), _DECODED)
    )
    headers = {"Content-Encoding": encoding}
    return httpx.Response(200, headers=headers, content=pieces, request=response.request).iter_bytes()


def raw_body(response: httpx.Response) -> Iterator[bytes]:
    """The bytes of a body as they came; a transport may have brought them into memory already."""
    return iter((response.content,)) if response.is_stream_consumed else response.iter_raw()


def check_identity(call: Call, response: httpx.Response) -> None:
    """Refuse a body that something on the way has compressed.

    Raises:
        StoreError: it has a `Content-Encoding`.
    """
    if response.headers.get("content-encoding", "").strip().lower() not in ("", "identity"):
        raise StoreError(
            f"{call.owner}: {call.what} failed because the response is encoded, which changes its bytes",
            hint="switch compression off in the proxy before the registry",
        )


def _url_of(exc: httpx.RequestError) -> httpx.URL | None:
    try:
        return exc.request.url
    except RuntimeError:  # raised outside of a request
        return None
