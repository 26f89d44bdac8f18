# SPDX-License-Identifier: Apache-2.0
"""The repositories of a registry (`GET /v2/_catalog`, which not every registry has)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx

from ...errors import FormatError, InvalidReference, LimitError, StoreError
from ...oci import RegistryReference, parse_json, parse_reference
from ...paths import show
from .http import Call, Host
from .messages import Site
from .repository import MAX_PAGES, next_link

PAGE = 1000
"""Names asked for at once."""
MOST = 1_000_000
"""Names that a registry may list."""


def repositories(host: Host) -> Iterator[str]:
    """The names of all repositories of a registry, each once, in its order.

    Raises:
        StoreError: the registry lists none, or could not be reached.
        FormatError: a name breaks the rules for repositories (distribution-spec, "Pulling manifests").
        LimitError: it lists more than `MOST`.
    """
    what = "listing the repositories"
    url: str | None = f"/v2/_catalog?n={PAGE}"
    names: set[str] = set()
    pages: set[str] = set()
    while url is not None and url not in pages and len(pages) < MAX_PAGES:
        pages.add(url)
        call = Call("GET", url, what, host.name, ("registry:catalog:*",))
        try:
            answer = host.request(call)
        except StoreError as exc:
            if exc.status in (401, 403, 404, 405):
                exc.hint = f"not every registry, and not to everybody, lists its repositories; name them ({exc.hint})"
            raise
        for name in _names(answer.body, host.name, call.limit):
            if name not in names:
                names.add(name)
                yield name
        if len(names) > MOST:
            raise LimitError(f"{host.name} lists more than {MOST} repositories", hint="name those that you need")
        link = next_link(answer.headers.get("link"))
        url = None if link is None else str(host.url(link, call, answer.url))
        if url is not None and Site.of(httpx.URL(url)) != host.site:
            raise StoreError(
                f"{host.name}: {what} failed because the next page is on another host",
                hint="the registry, or a proxy before it, is not set up safely; ask its administrator",
            )


def _names(data: bytes, host: str, limit: int) -> Iterator[str]:
    document: Any = parse_json(data, f"the list of repositories of {host}", limit)
    found = document.get("repositories") if isinstance(document, dict) else None
    if found is None and isinstance(document, dict) and "repositories" in document:
        found = []
    if not isinstance(found, list):
        raise FormatError(f"{host}: the list of repositories is not valid")
    for name in found:
        place = RegistryReference("registry.invalid", name if isinstance(name, str) else "")
        try:
            valid = parse_reference(str(place)) == place
        except InvalidReference:
            valid = False
        if not valid:
            raise FormatError(
                f"{host} lists {show(str(name))}, which is no name of a repository",
                hint="do not trust this registry, or name the repositories that you need",
            )
        yield name
