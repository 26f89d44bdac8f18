# SPDX-License-Identifier: Apache-2.0
"""Lists of tags and repositories of a registry, page by page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import httpx
from oras.container import Container

from ...errors import FormatError, LimitError, NetworkError, OcibridgeError, StoreError
from ...oci import is_repository, parse_json
from ...paths import show
from .auth import repository_scope
from .body import ContentBody
from .errors import is_web_page
from .host import UNSAFE
from .http import Call, RegistryHTTP

MAX_PAGES = 10_000
MAX_REPOSITORIES = 1_000_000
_PAGE = 1000
"""Repositories asked for at once."""
_NEXT = re.compile(r'<([^<>]*)>\s*;[^,<]*\brel="?next"?', re.IGNORECASE)


class ListingClient(RegistryHTTP):
    """The lists of a registry; the `container` of a method says which repository is meant.

    Every method raises a `StoreError` where the registry refuses or cannot be reached.
    """

    @staticmethod
    def container(host: str, repository: str) -> Container:
        """The ORAS client's form of a repository; its own parser takes `localhost/x` for one on Docker Hub."""
        made = Container(repository or "none", registry=host)
        made.registry, made.namespace, made.repository = host, None, repository
        return made

    def call(
        self,
        container: Container,
        method: str,
        path: str,
        what: str,
        actions: str = "pull",
        headers: Mapping[str, str] | None = None,
        body: bytes | ContentBody | None = None,
        **fields: Any,
    ) -> Call:
        """A request on a path of a repository, or on a whole URL; `fields` are those of `Call`."""
        host, name = self.host(container.registry), container.api_prefix
        url = path if "://" in path else f"/v2/{name}/{path}"
        fields = {"scope": repository_scope(name, actions), "limit": host.options.limits.manifest, **fields}
        return Call(host, method, url, what, f"{host.name}/{name}", headers=headers or {}, body=body, **fields)

    def is_new(self, container: Container) -> bool:
        """Return whether the repository has no tag ("Listing Tags"); False if this is unknown."""
        call = self.call(container, "GET", "tags/list?n=1", "listing the tags")
        try:
            response = self.request(call, accept=(200, 404))
            # Some respond to unknown paths with a web page.
            if response.status_code == 404:
                return not is_web_page(response)
            document: Any = parse_json(response.content, f"the list of tags of {call.owner}", call.limit or 0)
        except NetworkError:
            raise
        except OcibridgeError:
            return False
        return isinstance(document, dict) and document.get("tags", "unknown") in (None, [])

    def list_tags(self, container: Container, page: int | None = None) -> Iterator[str]:
        """Every tag, as the registry orders them ("Listing Tags").

        Args:
            container: The repository.
            page: Tags to ask for at once; None leaves that to the registry.

        Raises:
            NotFound: there is no such repository.
            FormatError: the registry sent something else than a list of tags.
        """
        path = "tags/list" if page is None else f"tags/list?n={page}"
        call = self.call(container, "GET", path, "listing the tags")
        for response in self.pages(call):
            document: Any = parse_json(response.content, f"the list of tags of {call.owner}", call.limit or 0)
            tags = document.get("tags") or [] if isinstance(document, dict) else None
            if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
                raise FormatError(
                    f"{call.owner}: the list of tags is not valid",
                    hint="the registry does not follow the distribution specification; ask its administrator",
                )
            if not tags:
                return
            yield from tags

    def list_repositories(self, hostname: str) -> Iterator[str]:
        """The names of all repositories of a registry, each once, in its order (`GET /v2/_catalog`).

        Raises:
            StoreError: the registry lists none, or could not be reached.
            FormatError: a name breaks the rules for repositories ("Pulling manifests").
            LimitError: it lists more than `MAX_REPOSITORIES`.
        """
        host = self.host(hostname)
        call = Call(
            host,
            "GET",
            f"/v2/_catalog?n={_PAGE}",
            "listing the repositories",
            host.name,
            ("registry:catalog:*",),
            limit=host.options.limits.manifest,
        )
        names: set[str] = set()
        try:
            for response in self.pages(call):
                for name in _names(response.content, host.name):
                    if name not in names:
                        names.add(name)
                        yield name
                if len(names) > MAX_REPOSITORIES:
                    raise LimitError(
                        f"{host.name} lists more than {MAX_REPOSITORIES} repositories", hint="name those that you need"
                    )
        except StoreError as exc:
            if exc.status in (401, 403, 404, 405):
                exc.hint = f"not every registry, and not to everybody, lists its repositories; name them ({exc.hint})"
            raise

    def pages(self, call: Call) -> Iterator[httpx.Response]:
        """The responses of a listing, which stays on its host and comes to an end (RFC 8288, `rel="next"`).

        Raises:
            StoreError: the registry refused, could not be reached, or leads to another host.
        """
        seen: set[str] = set()
        while call.url not in seen and len(seen) < MAX_PAGES:
            seen.add(call.url)
            response = self.request(call)
            yield response
            match = _NEXT.search(response.headers.get("link", ""))
            if match is None:
                return
            following = call.host.resolve(match[1], f"{call.owner}: {call.what}", response.url)
            if not call.host.is_own(following):
                raise StoreError(
                    f"{call.owner}: {call.what} failed because the next page is on another host", hint=UNSAFE
                )
            call = replace(call, url=str(following))


def _names(data: bytes, host: str) -> Iterator[str]:
    document: Any = parse_json(data, f"the list of repositories of {host}", len(data))
    found = document.get("repositories", ()) if isinstance(document, dict) else ()
    if not isinstance(found, list | None):
        raise FormatError(f"{host}: the list of repositories is not valid")
    for name in found or ():
        if not is_repository(name):
            raise FormatError(
                f"{host} lists {show(str(name))}, which is no name of a repository",
                hint="do not trust this registry, or name the repositories that you need",
            )
        yield name
