# SPDX-License-Identifier: Apache-2.0
"""The one way to a registry host: connections, TLS, timeouts, redirects, retries. No request leaves by another."""

from __future__ import annotations

import math
import re
import threading
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import httpx

from ...errors import LimitError, OcibridgeError, StoreError, UsageError
from ...settings import KiB, MiB
from .auth import Authenticator, Scope, same_origin
from .backoff import Backoff, HostStats, allowed_tries, exhausted, is_transient, pause, retry_after
from .body import ContentBody
from .connections import Connections, user_agent
from .credentials import CredentialSources
from .lines import Stream, interrupt
from .notices import Notices
from .options import RegistryOptions, base_url, is_local
from .pace import Pace, SteadyBody
from .problems import Answer, broken, refused

if TYPE_CHECKING:
    from .quota import Turns

MAX_REDIRECTS = 5
LANES = 6
"""Pieces of blobs that are read ahead from one host at a time, and kept in memory until it is their turn."""
_FOLLOWED = {301: ("GET", "HEAD"), 302: ("GET", "HEAD"), 303: ("GET", "HEAD")}
_ERROR_BODY = 64 * KiB
_COUNT = re.compile("[0-9]{1,9}")
_AS_IT_STANDS = re.compile(r"/v2/[A-Za-z0-9._~:/?=&%+,;@!$'()*-]*")
_SMALL = 16 * KiB
_NOTHING = httpx.ByteStream(b"")
_NO_AUTH = httpx.Auth()
_UNSAFE = "the registry, or a proxy before it, is not set up safely; ask its administrator"


@dataclass(frozen=True, slots=True)
class Call:
    """A request, as often as it has to be sent.

    Attributes:
        method: HTTP method.
        url: Path on the registry host, or a whole URL.
        what: The operation for messages, as a noun: `pulling the manifest v1`.
        owner: Whose operation it is: host and repository.
        scope: What the token has to allow; None, for a token server, sends no credentials whatever the host, and
            never waits for its turn (`Manners`).
        headers: Request headers.
        body: Request body.
        limit: Largest body accepted in an answer, in bytes.
        follow: Whether redirects are followed.
    """

    method: str
    url: str
    what: str
    owner: str
    scope: Scope | None = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | ContentBody | None = None
    limit: int = 4 * MiB
    follow: bool = True


class Host:
    """Everything that one registry host has in this process: connections, tokens, back-off.

    Args:
        name: Host with its port, as the user wrote it.
        options: See `RegistryOptions`.

    Attributes:
        latency: The least number of seconds that a connection took to be made, or an answer to begin; 0 where requests
            are limited (`Manners`), so that no blob is asked for piece by piece.
        lanes: Permits to read ahead.

    Raises:
        UsageError: the options cannot work.
        SourceError: a certificate file cannot be read.
    """

    def __init__(self, name: str, options: RegistryOptions) -> None:
        self.name = name
        self.options = options
        try:
            self.origin = httpx.URL(base_url(name, options.plain_http))
        except httpx.InvalidURL as exc:
            raise UsageError(f"{name} is not a valid registry host ({exc})") from None
        self._base = str(self.origin).rstrip("/")
        self.backoff = Backoff()
        self._notices = Notices()
        self.auth = Authenticator(self.name, self.origin, CredentialSources(name, options), self._exchange_token)
        manners, timeouts = options.manners, options.timeouts
        self._turns: Turns | None = None
        self.latency = math.inf
        if manners.limited:
            from .quota import Turns  # few need it

            self._turns = Turns(manners, self.backoff)
            self.latency = 0.0
        patience = httpx.Timeout(timeouts.connect, read=timeouts.read, write=timeouts.write, pool=None).as_dict()
        self._extensions: dict[str, object] = {"timeout": patience}
        self._commit_extensions: dict[str, object] = {"timeout": {**patience, "read": timeouts.commit}}
        self.lanes = threading.Semaphore(LANES)
        self._lock = threading.Lock()
        self._lines: weakref.WeakSet[Stream] = weakref.WeakSet()
        self._own: Connections | None = None
        self._foreign: Connections | None = None

    @property
    def stats(self) -> HostStats:
        """What was asked of the host so far."""
        return self.backoff.tally.stats

    @property
    def warnings(self) -> list[str]:
        """What the registry wants its users to know, bounded, without secrets ("Warnings")."""
        return [self.auth.redact(text) for text in self._notices.texts]

    def request(self, call: Call, accept: tuple[int, ...] | None = (200,)) -> Answer:
        """Send until there is an answer with one of the statuses in `accept`; None accepts what is not transient.

        Raises:
            StoreError: the registry refused, or could not be reached.
            LimitError: the answer is larger than `call.limit`.
        """
        attempts = Attempts(self, call)
        while True:
            try:
                answer = self.once(call)
            except httpx.HTTPError as exc:
                attempts.failed(exc)
                continue
            if not is_transient(answer.status) if accept is None else answer.status in accept:
                return answer
            attempts.failed(answer)

    def once(self, call: Call) -> Answer:
        """Send once and read the answer, whatever its status.

        Raises:
            httpx.HTTPError: the line broke.
            OcibridgeError: see `request`.
        """
        response = self.open(call)
        try:
            return self.answer(call, response)
        finally:
            response.close()

    def answer(self, call: Call, response: httpx.Response) -> Answer:
        """Read an open response to its end; one that is no success only up to 64 KiB."""
        limit = call.limit if response.is_success else _ERROR_BODY
        data = bytearray()
        pace, start = Pace(self.options.timeouts), time.monotonic()
        # A HEAD is read too: only a response at its end gives its connection back.
        pieces = response.iter_bytes() if "content-encoding" in response.headers else response.iter_raw()
        for piece in pieces:
            data += piece
            now = time.monotonic()
            pace.moved(len(piece), now - start)
            start = now
            if len(data) > limit:
                if response.is_success:
                    raise LimitError(
                        f"{call.owner}: the answer to {call.what} is larger than {limit} bytes",
                        hint="check the name; if it is right, do not trust this registry",
                    )
                break
        return Answer(response.status_code, response.headers, bytes(data[:limit]), self.where(response))

    def where(self, response: httpx.Response) -> str:
        """The address that gave a response."""
        target: bytes | None = response.request.extensions.get("target")
        return str(response.url) if target is None else self._base + target.decode("ascii")

    def open(self, call: Call) -> httpx.Response:
        """Send once, follow redirects, and give the response with its body unread. The caller closes it."""
        if self._turns is None or call.scope is None:
            return self._open(call)
        turn = self._turns.take(self._look)
        try:
            response = self._open(call)
            turn.hold(response)
        except BaseException:
            turn.end()
            raise
        return response

    def _open(self, call: Call) -> httpx.Response:
        self.backoff.wait()
        target = self._target(call.url)
        url = self.url(call.url, call) if target is None else self.origin
        for _ in range(MAX_REDIRECTS + 1):
            response = self._send(call, url, target)
            self._heed(call, response)
            location = response.headers.get("location")
            allowed = _FOLLOWED.get(response.status_code, () if response.status_code not in (307, 308) else None)
            if not (call.follow and location) or (allowed is not None and call.method not in allowed):
                return response
            try:
                self.answer(call, response)
            finally:
                response.close()
            url, target = self.url(location, call, httpx.URL(self.where(response))), None
        raise StoreError(f"{call.owner}: {call.what} was redirected more than {MAX_REDIRECTS} times", hint=_UNSAFE)

    def _target(self, url: str) -> bytes | None:
        """Path and query of an address under the API of this host that can go out as it stands.

        Most can, and to take them apart and put them together takes as long as sending them.
        """
        target = url.removeprefix(self._base)
        return target.encode("ascii") if _AS_IT_STANDS.fullmatch(target) and "/." not in target else None

    def url(self, target: str, call: Call, base: httpx.URL | None = None) -> httpx.URL:
        """Resolve a path, `Location` or link that the registry gave.

        Raises:
            StoreError: it leads from HTTPS to HTTP, into this machine, or nowhere.
        """
        if base is None and target.startswith("/v2/"):
            target = self._base + target
        ours = target.startswith(self._base + "/v2/")
        base = base or self.origin
        try:
            # What is under the API of this host stays there: there is nothing to join.
            url = httpx.URL(target if ours else urljoin(str(base), target))
        except (httpx.InvalidURL, ValueError):
            raise StoreError(
                f"{call.owner}: {call.what} failed because the registry gave no valid address", hint=_UNSAFE
            ) from None
        if ours and base is self.origin:
            return url
        reason = None
        if url.scheme not in ("http", "https") or not url.host or url.userinfo:
            reason = "an address that is no plain web address"
        elif url.scheme == "http" and base.scheme == "https":
            reason = f"{url.host} without encryption"
        elif is_local(url.host) and not is_local(self.origin.host):
            reason = f"{url.host}, an address of this machine"
        if reason:
            raise StoreError(
                f"{call.owner}: {call.what} failed because the registry pointed to {reason}",
                hint=_UNSAFE,
            )
        return url

    def error(self, call: Call, problem: Answer | Exception) -> OcibridgeError:
        """The error to raise for an answer or exception that ends the operation."""
        if isinstance(problem, OcibridgeError):
            return problem
        if isinstance(problem, Exception):
            return broken(self._name_of(problem), call.owner, call.what, problem)
        error = refused(self.name, call.owner, call.what, problem)
        error.message = self.auth.redact(error.message)
        if problem.status == 401:
            error.hint = self.auth.advice
        elif problem.status == 403 and self.auth.complaint:
            error.hint = f"{error.hint}; {self.auth.complaint}"
        error.args = (error.message,)
        return error

    def interrupt(self) -> None:
        """Break every connection, so that all who wait for one stop at once; for another thread."""
        self._stop()
        for line in list(self._lines):
            interrupt(line)

    def close(self) -> None:
        """Give back all connections and wake all who wait."""
        self._stop()
        with self._lock:
            for connections in (self._own, self._foreign):
                if connections is not None:
                    connections.close()

    def _stop(self) -> None:
        self.backoff.stop()
        if self._turns is not None:
            self._turns.wake()

    def _name_of(self, exc: Exception) -> str:
        """The host that an exception is about: this one, or where it sent us."""
        try:
            url = exc.request.url if isinstance(exc, httpx.RequestError) else self.origin
        except RuntimeError:
            return self.name  # raised outside of a request
        return self.name if same_origin(url, self.origin) else url.netloc.decode("ascii", "replace")

    def _heed(self, call: Call, response: httpx.Response) -> None:
        """Take from an answer what concerns the host as a whole."""
        self.backoff.answered = True
        if same_origin(response.url, self.origin):
            self._notices.add(response.headers)
            seconds = exhausted(response.headers) or 0.0
            if seconds and seconds <= self.options.retries.patience:
                self.backoff.hold(seconds)
            if self._turns is not None and call.scope is not None:
                self._turns.heed(call, response.headers)

    def _look(self, call: Call) -> None:
        response = self._open(call)
        try:
            self.answer(call, response)
        finally:
            response.close()

    def _send(self, call: Call, url: httpx.URL, target: bytes | None) -> httpx.Response:
        own = same_origin(url, self.origin)
        connections = self._connections(own)
        auth = self.auth.flow(call.scope) if own and call.scope is not None else _NO_AUTH
        started = time.monotonic()
        flow = auth.auth_flow(self._request(call, url, target))
        request = next(flow)
        while True:
            if self._turns is not None and auth is not _NO_AUTH:
                self._turns.space()
            self.backoff.tally.request()
            response = connections.send(request)
            try:
                request = flow.send(response)
            except StopIteration:
                break
            except BaseException:
                response.close()
                raise
            self._drain(response)
        if call.body is None:
            self.latency = min(self.latency, time.monotonic() - started)
        return response

    def _drain(self, response: httpx.Response) -> None:
        """Close an answer that nobody wants; a short one is read first, as only then its connection is kept."""
        try:
            if _COUNT.fullmatch(size := response.headers.get("content-length", "")) and int(size) <= _ERROR_BODY:
                with suppress(httpx.HTTPError):
                    response.read()
        finally:
            response.close()

    def _request(self, call: Call, url: httpx.URL, target: bytes | None) -> httpx.Request:
        headers = {
            "Host": url.netloc.decode("ascii"),
            "User-Agent": user_agent(),
            "Accept-Encoding": "identity",
            "Accept": "*/*",
        }
        for name, value in call.headers.items():
            headers[name.title()] = value
        stream: httpx.SyncByteStream = _NOTHING
        if isinstance(call.body, ContentBody):
            headers["Content-Length"] = str(call.body.length)
            stream = SteadyBody(call.body, self.options.timeouts)
        elif call.body:
            headers["Content-Length"] = str(len(call.body))
            stream = httpx.ByteStream(call.body)
            if len(call.body) > _SMALL:
                stream = SteadyBody(stream, self.options.timeouts)
        elif call.method in ("POST", "PUT", "PATCH"):
            headers["Content-Length"] = "0"
        extensions = self._commit_extensions if call.method == "PUT" else self._extensions
        if target is not None:
            extensions = {**extensions, "target": target}
        return httpx.Request(call.method, url, headers=headers, stream=stream, extensions=extensions)

    def _connected(self, line: Stream, seconds: float) -> None:
        # No server thinks before it accepts a connection, so this is nearer to the length of the line.
        self.latency = min(self.latency, seconds)
        self._lines.add(line)

    def _connections(self, own: bool) -> Connections:
        with self._lock:
            if own:
                self._own = self._own or Connections(self.options, True, self.origin, self._connected)
                return self._own
            self._foreign = self._foreign or Connections(self.options, False, self.origin, self._connected)
            return self._foreign

    def _exchange_token(self, url: str, headers: Mapping[str, str], form: bytes | None) -> Answer:
        call = Call(
            method="GET" if form is None else "POST",
            url=url,
            what="asking for a token",
            owner=self.name,
            scope=None,
            headers=headers,
            body=form,
            limit=MiB,
            follow=False,
        )
        return self.request(call, accept=None)


class Attempts:
    """The tries of one operation, counted since it last got anywhere."""

    def __init__(self, host: Host, call: Call) -> None:
        self._host = host
        self._call = call
        self.failures = 0

    def progress(self) -> None:
        """The operation got further: start counting anew."""
        self.failures = 0

    def failed(self, problem: Answer | httpx.HTTPError, again: bool = False) -> None:
        """Wait until the next try makes sense.

        Args:
            problem: What the last try ended with.
            again: Whether another try can help although the status says that the same request cannot.

        Raises:
            StoreError: it never will, or not soon enough.
        """
        self.failures += 1
        retry, backoff = self._host.options.retries, self._host.backoff
        if isinstance(problem, Answer):
            tries = retry.attempts if again or is_transient(problem.status) else 1
        else:
            # Who breaks a connection is there, even without an answer.
            backoff.answered |= not isinstance(problem, httpx.ConnectError | httpx.ConnectTimeout)
            tries = allowed_tries(problem, retry, backoff.answered)
        asked = retry_after(problem.headers) if isinstance(problem, Answer) else None
        if asked is None and isinstance(problem, Answer) and problem.status == 429:
            asked = exhausted(problem.headers)
        if self.failures >= tries or (asked or 0.0) > retry.patience:
            error = self._host.error(self._call, problem)
            if asked and asked > retry.patience:
                error.hint = f"the registry asks to wait {asked:.0f} seconds; try again after that"
            raise error from (problem if isinstance(problem, Exception) else None)
        backoff.tally.retry()
        delay = max(pause(self.failures, retry), asked or 0.0)
        if isinstance(problem, Answer) and problem.status in (429, 503):
            backoff.hold(delay)
        backoff.wait(delay)
