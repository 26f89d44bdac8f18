# SPDX-License-Identifier: Apache-2.0
"""The one way to a registry host: connections, TLS, timeouts, redirects, retries. No request leaves by another."""

from __future__ import annotations

import math
import re
import threading
import time
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import httpx

from ...about import USER_AGENT
from ...errors import LimitError, OcibridgeError, StoreError, UsageError
from ...settings import KiB, MiB
from .auth import Authenticator, Scope
from .backoff import Backoff, HostStats, allowed_tries, exhausted, is_transient, pause, retry_after
from .body import ContentBody
from .connections import Connections, decoded
from .credentials import CredentialSources
from .lines import interrupt
from .messages import Patience, Reply, Request, Site, Stream, say_where
from .notices import Notices
from .options import RegistryOptions, Timeouts, base_url, is_local
from .pace import Pace, SteadyBody
from .problems import Answer, broken, refused

if TYPE_CHECKING:
    from .quota import Turns

MAX_REDIRECTS = 5
LANES = 6
"""Pieces of blobs that are read ahead from one host at a time, and kept in memory until it is their turn."""
_FOLLOWED = {301: ("GET", "HEAD"), 302: ("GET", "HEAD"), 303: ("GET", "HEAD"), 307: None, 308: None}
"""Redirects, and the methods for which they are followed; None is any."""
_ERROR_BODY = 64 * KiB
_AS_IT_STANDS = re.compile(r"/v2/[A-Za-z0-9._~:/?=&%+,;@!$'()*-]*")
_SMALL = 16 * KiB
_OURS = ("host", "content-length", "transfer-encoding")
"""Header fields that nobody else says: they tell where a request ends, and whom it is for."""
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
        origin: Its address.
        base: The same as text, without a slash at its end.
        site: Where its lines lead.
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
        self.site = Site.of(self.origin)
        self.base = str(self.origin).rstrip("/")
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
        self._patience = Patience(timeouts.connect, timeouts.read, timeouts.write)
        self._commit_patience = self._patience._replace(read=timeouts.commit)
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
        reply = self.open(call)
        try:
            return self.answer(call, reply)
        finally:
            reply.close()

    def answer(self, call: Call, reply: Reply) -> Answer:
        """Read an open answer to its end; one that is no success only up to 64 KiB."""
        limit = call.limit if reply.is_success else _ERROR_BODY
        data = bytearray()
        pace, start = Pace(self.options.timeouts), time.monotonic()
        # A HEAD is read too: only an answer at its end gives its connection back.
        try:
            for piece in decoded(reply) if "content-encoding" in reply.headers else reply.body:
                data += piece
                now = time.monotonic()
                pace.moved(len(piece), now - start)
                start = now
                if len(data) > limit:
                    break
        except httpx.HTTPError as exc:
            say_where(exc, reply.request)
            raise
        if len(data) > limit and reply.is_success:
            raise LimitError(
                f"{call.owner}: the answer to {call.what} is larger than {limit} bytes",
                hint="check the name; if it is right, do not trust this registry",
            )
        return Answer(reply.status, reply.headers, bytes(data[:limit]), reply.request.where)

    def open(self, call: Call) -> Reply:
        """Send once, follow redirects, and give the answer with its body unread. The caller closes it."""
        if self._turns is None or call.scope is None:
            return self._open(call)
        turn = self._turns.take(self._look)
        try:
            reply = self._open(call)
        except BaseException:
            turn.end()
            raise
        reply.then(turn.end)
        return reply

    def _open(self, call: Call) -> Reply:
        self.backoff.wait()
        site, target = self.site, self.target(call.url)
        if target is None:
            url = self.url(call.url, call)
            site, target = Site.of(url), url.raw_path.decode("ascii")
        for _ in range(MAX_REDIRECTS + 1):
            reply = self._send(call, site, target)
            if site == self.site:
                self._heed(call, reply)
            methods = _FOLLOWED.get(reply.status, ())
            location = reply.headers.get("location")
            if not (call.follow and location) or (methods is not None and call.method not in methods):
                return reply
            try:
                self.answer(call, reply)
            finally:
                reply.close()
            url = self.url(location, call, httpx.URL(reply.request.where))
            site, target = Site.of(url), url.raw_path.decode("ascii")
        raise StoreError(f"{call.owner}: {call.what} was redirected more than {MAX_REDIRECTS} times", hint=_UNSAFE)

    def target(self, url: str) -> str | None:
        """Path and query of an address under the API of this host that can go out as it stands.

        Most can, and to take them apart and put them together takes as long as sending them.
        """
        target = url.removeprefix(self.base)
        return target if _AS_IT_STANDS.fullmatch(target) and "/." not in target else None

    def url(self, target: str, call: Call, base: httpx.URL | None = None) -> httpx.URL:
        """Resolve a path, `Location` or link that the registry gave.

        Raises:
            StoreError: it leads from HTTPS to HTTP, into this machine, or nowhere.
        """
        if base is None and target.startswith("/v2/"):
            target = self.base + target
        ours = target.startswith(self.base + "/v2/")
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
        with self._lock:
            lines = list(self._lines)
        for line in lines:
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
        return self.name if Site.of(url) == self.site else url.netloc.decode("ascii", "replace")

    def _heed(self, call: Call, reply: Reply) -> None:
        """Take from an answer of this host what concerns it as a whole."""
        self._notices.add(reply.headers)
        seconds = exhausted(reply.headers) or 0.0
        if seconds and seconds <= self.options.retries.patience:
            self.backoff.hold(seconds)
        if self._turns is not None and call.scope is not None:
            self._turns.heed(call, reply.headers)

    def _look(self, call: Call) -> None:
        reply = self._open(call)
        try:
            self.answer(call, reply)
        finally:
            reply.close()

    def _send(self, call: Call, site: Site, target: str) -> Reply:
        own = site == self.site
        connections = self._connections(own)
        request = self._request(call, site, target)
        started = time.monotonic()
        if not own or call.scope is None:
            reply = self._pass(connections, request)
        else:
            used = self.auth.sign(request, call.scope)
            reply = self._pass(connections, request, self._turns)
            if reply.status == 401:
                # Its line may be the one on which the token is asked for.
                reply.keep(_ERROR_BODY)
                if self.auth.challenged(request, reply, call.scope, used):
                    reply = self._pass(connections, request, self._turns)
        self.backoff.answered = True
        if call.body is None:
            self.latency = min(self.latency, time.monotonic() - started)
        return reply

    def _pass(self, connections: Connections, request: Request, turns: Turns | None = None) -> Reply:
        if turns is not None:
            turns.space()
        self.backoff.tally.request()
        return connections.send(request)

    def _request(self, call: Call, site: Site, target: str) -> Request:
        headers = {
            "Host": site.netloc,
            "User-Agent": USER_AGENT,
            "Accept-Encoding": "identity",
            "Accept": "*/*",
        }
        for name, value in call.headers.items():
            if name.lower() not in _OURS:
                headers[name.title()] = value
        length, body = _body(call, self.options.timeouts)
        patience = self._commit_patience if call.method == "PUT" else self._patience
        return Request(call.method, site, target, headers, patience, length, body)

    def _connected(self, line: Stream, seconds: float) -> None:
        # No server thinks before it accepts a connection, so this is nearer to the length of the line.
        self.latency = min(self.latency, seconds)
        with self._lock:
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


def _body(call: Call, timeouts: Timeouts) -> tuple[int | None, Iterable[bytes]]:
    """The length of a request's body, as far as one is announced, and the body."""
    if not call.body:
        return (0 if call.method in ("POST", "PUT", "PATCH") else None), ()
    length, body = (len(call.body), (call.body,)) if isinstance(call.body, bytes) else (call.body.length, call.body)
    return length, SteadyBody(body, timeouts) if length > _SMALL else body


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
