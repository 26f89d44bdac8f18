# SPDX-License-Identifier: Apache-2.0
"""Basic and Bearer authentication (distribution, "Token Authentication"; RFC 7235; RFC 6749, section 6)."""

from __future__ import annotations

import base64
import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import httpx

from ...errors import AuthenticationError, StoreError
from .credentials import Credential, CredentialSources
from .errors import error_from_response

Scope = tuple[str, ...]
"""What a token has to allow, such as `("repository:models/digits:pull,push",)`."""

Exchange = Callable[[str, Mapping[str, str], bytes | None], httpx.Response]
"""Ask a token server: URL, headers, and a form to POST or None for GET."""

_CLIENT_ID = "ocibridge"
_LIFE = 60.0
"""Seconds that a token lives where the server does not say (token specification, `expires_in`)."""
_EARLIER = 8
"""Tokens before the current one that requests may still be under way with."""
_USELESS = 2
"""Tokens in a row that are refused to every request that has them: one may be revoked at the moment it is given."""
_CHALLENGE = re.compile(
    r'[\s,]*(?:(?P<key>[!#$%&\'*+.^_`|~\w-]+)\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s,"]*))'
    r"|(?P<scheme>[!#$%&'*+.^_`|~\w-]+))"
)


def repository_scope(repository: str, actions: str) -> Scope:
    """The scope for `pull` or `pull,push` in a repository."""
    return (f"repository:{repository}:{actions}",)


def parse_challenges(headers: Iterable[str]) -> dict[str, dict[str, str]]:
    """The challenges of all `WWW-Authenticate` headers: parameters by scheme, all names in lower case.

    Example:
        >>> parse_challenges(['Basic realm="a", Bearer realm="https://t/",service="r"'])
        {'basic': {'realm': 'a'}, 'bearer': {'realm': 'https://t/', 'service': 'r'}}
    """
    found: dict[str, dict[str, str]] = {}
    for header in headers:
        current: dict[str, str] = {}
        position = 0
        while match := _CHALLENGE.match(header, position):
            position = match.end()
            if match["scheme"]:
                current = {}
                found.setdefault(match["scheme"].lower(), current)
            elif match["quoted"] is not None:
                current[match["key"].lower()] = re.sub(r"\\(.)", r"\1", match["quoted"])
            else:
                current[match["key"].lower()] = match["plain"]
    return found


def merge_scopes(scopes: Iterable[str]) -> list[str]:
    """Scopes with the actions of each resource joined, sorted, so that equal wishes give equal requests."""
    merged: dict[str, set[str]] = {}
    for scope in scopes:
        resource, _, actions = scope.rpartition(":")
        merged.setdefault(resource, set()).update(actions.split(","))
    return [
        f"{resource}:{','.join(sorted(actions))}" if resource else ",".join(sorted(actions))
        for resource, actions in sorted(merged.items())
    ]


@dataclass(slots=True)
class _Grant:
    """An `Authorization` value.

    Attributes:
        value: The value.
        expires: When it has to be renewed, by the monotonic clock.
        challenge: The challenge that it responds to, to renew it by.
        uses: Requests that it was attached to.
        refusals: Requests of these that the registry has refused.
        accepted: Whether the registry has taken it at least once.
    """

    value: str
    expires: float
    challenge: Mapping[str, str]
    uses: int = 0
    refusals: int = 0
    accepted: bool = False

    @property
    def is_useless(self) -> bool:
        """True if the registry has refused it to every request that had it."""
        return self.refusals == self.uses and not self.accepted


class Authenticator:
    """The tokens of one registry host, by scope; a scope names repository and actions.

    Args:
        name: Registry host as the user wrote it.
        origin: Address of the registry; nothing is ever attached to a request for another origin.
        sources: Where credentials come from; asked only when the registry wants some.

    Every method may be called from several threads. One that asks for a token keeps only those waiting who need a token
    for the same scope.
    """

    def __init__(self, name: str, origin: httpx.URL, sources: CredentialSources) -> None:
        self._name = name
        self._origin = origin
        self._sources = sources
        self._lock = threading.Lock()
        self._scopes: dict[Scope, threading.Lock] = {}
        self._grants: dict[Scope, tuple[_Grant, ...]] = {}
        self._useless: dict[Scope, int] = {}
        self._refresh_tokens: dict[str, str] = {}
        self._secrets: set[str] = set()

    def moved(self, origin: httpx.URL) -> None:
        """The registry is asked by another scheme from now on."""
        self._origin = origin

    @property
    def complaint(self) -> str | None:
        """Why a credential helper did not help, if that happened."""
        return self._sources.complaint

    @property
    def advice(self) -> str:
        """Return the next step after a refusal."""
        return "; ".join(part for part in (self._sources.advice, self.complaint) if part)

    @property
    def asked(self) -> bool:
        """True if the registry has asked for an `Authorization`, and got one."""
        return bool(self._grants)

    def known(self, scope: Scope, ask: Exchange) -> str | None:
        """The `Authorization` value that is good for a scope as far as is known, renewed if it has run out.

        Raises:
            AuthenticationError: the token server refused us.
            StoreError: the token server is broken, or not one to send credentials to.
        """
        grants = self._grants.get(scope)
        if not grants:
            return None
        grant = grants[-1]
        if time.monotonic() < grant.expires:
            return self._use(grant)
        # It was not refused: a token server may well give the same one again, with a longer life.
        return self.respond({"bearer": dict(grant.challenge)}, scope, None, ask)

    def accepted(self, scope: Scope, value: str) -> None:
        """The registry has taken a value."""
        self._useless.pop(scope, None)
        for grant in self._grants.get(scope, ()):
            if grant.value == value:
                grant.accepted = True

    def respond(
        self, challenges: Mapping[str, Mapping[str, str]], scope: Scope, refused: str | None, ask: Exchange
    ) -> str | None:
        """The `Authorization` value that responds to a 401, or None if there is no other than the one refused.

        A value that another thread has got meanwhile is tried before a new one is asked for. Once the registry has
        refused two in a row to every request that had them, that is final: others like them would be refused, too.

        Args:
            challenges: See `parse_challenges`.
            scope: What the request needs.
            refused: The value that the registry has just refused, if there was one.
            ask: How a token server is asked.

        Raises:
            AuthenticationError: the token server refused us.
            StoreError: the token server is broken, or not one to send credentials to.
        """
        with self._lock:
            lock = self._scopes.setdefault(scope, threading.Lock())
        with lock:
            grants = self._grants.get(scope, ())
            for grant in grants:
                if grant.value == refused:
                    grant.refusals += 1
                    self._useless[scope] = self._useless.get(scope, 0) + grant.is_useless
            if refused and self._useless.get(scope, 0) >= _USELESS:
                return None
            if grants and grants[-1].value != refused and time.monotonic() < grants[-1].expires:
                return self._use(grants[-1])
            credential = self._sources.find(_repository(scope))
            if "bearer" in challenges:
                grant = self._bearer(challenges["bearer"], scope, credential, ask)
            elif "basic" in challenges and credential and credential.username:
                grant = _Grant(self._basic(credential), float("inf"), {})
            else:
                return None
            if grant.value == refused:
                return None
            self._grants[scope] = (*grants[-_EARLIER:], grant)
            return self._use(grant)

    def redact(self, text: str) -> str:
        """`text` without any password or token that this host was given."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text

    def _use(self, grant: _Grant) -> str:
        with self._lock:
            grant.uses += 1
        return grant.value

    def _basic(self, credential: Credential) -> str:
        encoded = base64.b64encode(f"{credential.username}:{credential.password}".encode()).decode()
        self._remember(credential.password, encoded)
        return f"Basic {encoded}"

    def _bearer(
        self, challenge: Mapping[str, str], scope: Scope, credential: Credential | None, ask: Exchange
    ) -> _Grant:
        if credential and credential.registry_token:
            self._remember(credential.registry_token)
            return _Grant(f"Bearer {credential.registry_token}", float("inf"), challenge)
        realm = self._realm(challenge.get("realm", ""))
        scopes = merge_scopes([*challenge.get("scope", "").split(), *scope])
        document = self._document(self._request(realm, challenge.get("service"), scopes, credential, ask))
        token = document.get("token") or document.get("access_token")
        if not isinstance(token, str) or not (token.isascii() and token.isprintable()):
            raise self._no_token(realm.host)
        self._remember(token)
        renewed = document.get("refresh_token")
        if credential and isinstance(renewed, str) and renewed:
            self._refresh_tokens[realm.host] = renewed
            self._remember(renewed)
        life = document.get("expires_in")
        seconds = max(float(life), _LIFE) if isinstance(life, int | float) else _LIFE
        return _Grant(f"Bearer {token}", time.monotonic() + 0.9 * seconds, challenge)

    def _request(
        self,
        realm: httpx.URL,
        service: str | None,
        scopes: list[str],
        credential: Credential | None,
        ask: Exchange,
    ) -> httpx.Response:
        query = [("service", service)] if service else []
        identity = None
        if credential and credential.identity_token:
            identity = self._refresh_tokens.get(realm.host, credential.identity_token)
            self._remember(identity)
            form = [
                ("grant_type", "refresh_token"),
                *query,
                ("client_id", _CLIENT_ID),
                ("refresh_token", identity),
                *([("scope", " ".join(scopes))] if scopes else []),
            ]
            headers = {"Content-Type": "application/x-www-form-urlencoded"}
            response = ask(str(realm), headers, urlencode(form).encode())
            if response.status_code not in (404, 405) or not credential.username:
                return response
        query += [("scope", scope) for scope in scopes]
        headers = {"Authorization": self._basic(credential)} if credential and credential.username else {}
        url = str(realm)
        if query:
            url += ("&" if realm.query else "?") + urlencode(query)
        return ask(url, headers, None)

    def _realm(self, text: str) -> httpx.URL:
        try:
            realm = httpx.URL(text)
        except httpx.InvalidURL:
            realm = httpx.URL("")
        wanted = ("https", "http") if self._origin.scheme == "http" else ("https",)
        if realm.scheme not in wanted or not realm.host or realm.userinfo:
            raise StoreError(
                f"{self._name}: the registry names no token server that credentials can safely be sent to",
                hint="its realm has to be an https:// address; ask its administrator",
            )
        return realm

    def _document(self, response: httpx.Response) -> dict[str, Any]:
        status, server = response.status_code, response.url.host
        if status in (400, 401, 403):
            who = "us without credentials" if self._sources.empty else "the credentials"
            raise AuthenticationError(
                f"{self._name}: the token server {server} refused {who} with status {status}",
                hint=self.advice,
                status=status,
            )
        if status != 200:
            error = error_from_response(self._name, self._name, f"asking {server} for a token", response)
            error.message = self.redact(error.message)
            raise error
        try:
            document = json.loads(response.content)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise self._no_token(server)
        return document

    def _no_token(self, server: str) -> StoreError:
        return StoreError(
            f"{self._name}: the token server {server} gave no token",
            hint="the token server does not follow its specification; ask the administrator of the registry",
        )

    def _remember(self, *secrets: str | None) -> None:
        self._secrets.update(secret for secret in secrets if secret and len(secret) > 3)


def _repository(scope: Scope) -> str:
    kind, _, rest = (scope[0] if scope else "").partition(":")
    return rest.rpartition(":")[0] if kind == "repository" else ""
