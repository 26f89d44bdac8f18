# SPDX-License-Identifier: Apache-2.0
"""Registries that ask who is there."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from urllib.parse import parse_qs

from ..stores.registry.fault_server import Reply, Seen
from .quirks import PATH, Redirecting, error
from .server import Server

USER, SECRET = "tester", "geheim-4711"
BASIC = "Basic " + base64.b64encode(f"{USER}:{SECRET}".encode()).decode()


class BasicRegistry(Redirecting):
    """Every request needs the user and the password."""

    def refuse(self, seen: Seen) -> Reply | None:
        return None if seen.authorization == BASIC else Reply(401, headers={"WWW-Authenticate": 'Basic realm="r"'})


class TokenServer(Server):
    """Gives tokens that say what they are good for.

    Attributes:
        open_to_all: Whether it gives tokens to strangers.
        refresh_token: The one that it takes in place of a password.
    """

    open_to_all = False
    refresh_token = "refresh-0815"

    def __init__(self, name: str = "localhost") -> None:
        super().__init__(name)
        self.given = 0

    def reply(self, seen: Seen) -> Reply:
        path, _, query = seen.path.partition("?")
        asked = parse_qs(seen.body.decode() if seen.method == "POST" else query)
        allowed = self.open_to_all or seen.authorization == BASIC
        if seen.method == "POST":
            allowed = asked.get("refresh_token") == [self.refresh_token]
        if path != "/token" or not allowed:
            return Reply(401)
        self.given += 1
        token = f"t{self.given}|{' '.join(asked.get('scope', []))}"
        document = {"access_token" if seen.method == "POST" else "token": token, "expires_in": 300}
        return Reply(200, json.dumps(document).encode())


class BearerRegistry(Redirecting):
    """Every request needs a token for its repository and action.

    Attributes:
        realm: Address of the token server.
        life: Requests that a token is good for, whatever the token server says of its time.
    """

    realm = ""
    life = 1 << 30

    def __init__(self, name: str = "127.0.0.1") -> None:
        super().__init__(name)
        self._uses: dict[str, int] = {}

    def refuse(self, seen: Seen) -> Reply | None:
        match = PATH.fullmatch(seen.path.partition("?")[0])
        if not match:
            return None
        action = "pull" if seen.method in ("GET", "HEAD") else "push"
        token = (seen.authorization or "").removeprefix("Bearer ")
        granted = [scope.rpartition(":") for scope in token.partition("|")[2].split()]
        good = any(
            resource == f"repository:{match['name']}" and action in actions.split(",")
            for resource, _, actions in granted
        )
        if good:
            self._uses[token] = self._uses.get(token, 0) + 1
            if self._uses[token] <= self.life:
                return None
        scope = f"repository:{match['name']}:{'pull' if action == 'pull' else 'pull,push'}"
        fault = ',error="invalid_token"' if seen.authorization else ""
        challenge = f'Bearer realm="{self.realm}",service="registry",scope="{scope}"{fault}'
        return replace(error(401, "UNAUTHORIZED"), headers={"WWW-Authenticate": challenge})


class DockerHub(BearerRegistry):
    """Docker Hub: tokens of another host, and a rate limit that counts GETs of manifests.

    Attributes:
        left: Pulls until it says 429.
        pause: Its `Retry-After` in seconds; None sends none.
    """

    left = 100
    pause: int | None = None

    def manifest(self, seen: Seen, name: str, version: str) -> Reply:
        limits = {"ratelimit-limit": "100;w=21600", "ratelimit-remaining": f"{max(0, self.left - 1)};w=21600"}
        if seen.method == "GET":
            if self.left <= 0:
                refusal = error(429, "TOOMANYREQUESTS", "You have reached your pull rate limit.")
                after = {} if self.pause is None else {"Retry-After": str(self.pause)}
                return replace(refusal, headers={**limits, **after})
            self.left -= 1
        found = super().manifest(seen, name, version)
        return replace(found, headers={**found.headers, **limits})
