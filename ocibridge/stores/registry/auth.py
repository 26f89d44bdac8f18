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
from .messages import CHALLENGES, Reply, Request, Site
from .problems import Answer, refused

Scope = tuple[str, ...]
"""What a token has to allow, such as `("repository:models/digits:pull,push",)`."""

Exchange = Callable[[str, Mapping[str, str], bytes | None], Answer]
"""Ask a token server: URL, headers, and a form to POST or None for GET."""

_CLIENT_ID = "ocibridge"
_LIFE = 60.0
"""Seconds that a token lives where the server does not say (token specification, `expires_in`)."""
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


@dataclass(frozen=True, slots=True)
class _Grant:
    header: str
    expires: float
    challenge: Mapping[str, str]


class Authenticator:
    """The tokens of one registry host, by scope; a scope names repository and actions.

    Args:
        name: Registry host as the user wrote it.
        origin: Address of the registry; nothing is ever attached to a request for another origin.
        sources: Where credentials come from; asked only when the registry wants some.
        exchange: How a token server is asked.
    """

    def __init__(self, name: str, origin: httpx.URL, sources: CredentialSources, exchange: Exchange) -> None:
        self._name = name
        self._origin = origin
        self._site = Site.of(origin)
        self._sources = sources
        self._exchange = exchange
        self._lock = threading.Lock()
        self._grants: dict[Scope, _Grant] = {}
        self._refresh_tokens: dict[str, str] = {}
        self._secrets: set[str] = set()

    @property
    def complaint(self) -> str | None:
        """Why a credential helper did not help, if that happened."""
        return self._sources.complaint

    @property
    def advice(self) -> str:
        """What to do after a refusal."""
        return "; ".join(part for part in (self._sources.advice, self.complaint) if part)

    def sign(self, request: Request, scope: Scope) -> str | None:
        """Attach the `Authorization` that is known to be good for a scope, and give it, if there is one."""
        used = self.header(scope) if request.site == self._site else None
        if used:
            request.headers["Authorization"] = used
        return used

    def challenged(self, request: Request, reply: Reply, scope: Scope, refused: str | None) -> bool:
        """Attach what answers a 401; whether there is anything, so that the request should be sent again.

        Args:
            request: What was sent.
            reply: The 401.
            scope: What the request needs.
            refused: The value that was attached, if there was one.

        Raises:
            StoreError: see `answer`.
        """
        if request.site != self._site:
            return False
        challenges = parse_challenges(reply.headers.get(CHALLENGES, "").split("\n"))
        fresh = self.answer(challenges, scope, refused)
        if fresh:
            request.headers["Authorization"] = fresh
        return bool(fresh)

    def redact(self, text: str) -> str:
        """`text` without any password or token that this host was given."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text

    def header(self, scope: Scope) -> str | None:
        """The `Authorization` value that is known to be good for a scope, renewed if it has run out."""
        grant = self._grants.get(scope)
        if grant is None or time.monotonic() < grant.expires:
            return grant.header if grant else None
        # It was not refused: a token server may well give the same one again, with a longer life.
        return self.answer({"bearer": dict(grant.challenge)}, scope, None)

    def answer(self, challenges: Mapping[str, Mapping[str, str]], scope: Scope, refused: str | None) -> str | None:
        """The `Authorization` value that answers a 401, or None if there is none.

        Args:
            challenges: See `parse_challenges`.
            scope: What the request needs.
            refused: The value that the registry has just refused, if there was one.

        Raises:
            AuthenticationError: the token server refused us.
            StoreError: the token server is broken, or not one to send credentials to.
        """
        with self._lock:
            known = self._grants.get(scope)
            if known and known.header != refused and time.monotonic() < known.expires:
                return known.header
            self._grants.pop(scope, None)
            credential = self._sources.find(_repository(scope))
            if "bearer" in challenges:
                grant = self._bearer(challenges["bearer"], scope, credential)
            elif "basic" in challenges and credential and credential.username:
                grant = _Grant(self._basic(credential), float("inf"), {})
            else:
                return None
            if grant.header == refused:
                return None
            self._grants[scope] = grant
            return grant.header

    def _basic(self, credential: Credential) -> str:
        encoded = base64.b64encode(f"{credential.username}:{credential.password}".encode()).decode()
        self._remember(credential.password, encoded)
        return f"Basic {encoded}"

    def _bearer(self, challenge: Mapping[str, str], scope: Scope, credential: Credential | None) -> _Grant:
        if credential and credential.registry_token:
            self._remember(credential.registry_token)
            return _Grant(f"Bearer {credential.registry_token}", float("inf"), challenge)
        realm = self._realm(challenge.get("realm", ""))
        scopes = merge_scopes([*challenge.get("scope", "").split(), *scope])
        answer = self._ask(realm, challenge.get("service"), scopes, credential)
        document = self._document(answer)
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

    def _ask(self, realm: httpx.URL, service: str | None, scopes: list[str], credential: Credential | None) -> Answer:
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
            answer = self._exchange(str(realm), headers, urlencode(form).encode())
            if answer.status not in (404, 405) or not credential.username:
                return answer
        query += [("scope", scope) for scope in scopes]
        headers = {"Authorization": self._basic(credential)} if credential and credential.username else {}
        url = str(realm)
        if query:
            url += ("&" if realm.query else "?") + urlencode(query)
        return self._exchange(url, headers, None)

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

    def _document(self, answer: Answer) -> dict[str, Any]:
        if answer.status in (400, 401, 403):
            who = "us without credentials" if self._sources.empty else "the credentials"
            raise AuthenticationError(
                f"{self._name}: the token server {answer.url.host} refused {who} with status {answer.status}",
                hint=self.advice,
                status=answer.status,
            )
        if answer.status != 200:
            error = refused(self._name, self._name, f"asking {answer.url.host} for a token", answer)
            error.message = self.redact(error.message)
            raise error
        try:
            document = json.loads(answer.body)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise self._no_token(answer.url.host)
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
