# SPDX-License-Identifier: Apache-2.0
"""`LINKS`: files of a carton that are only named by URL (seed 000, "LINKS")."""

from __future__ import annotations

from pydantic import Field, ValidationError

from ...errors import FormatError
from ...oci.document import first_problem
from .toml import CartonTable, parse_toml


class Links(CartonTable):
    """`LINKS`: the URLs of each file, by its sha256."""

    version: int
    urls: dict[str, list[str]] = Field(default={})

    def of(self, sha256: str) -> list[str]:
        """The URLs of the file with this lower-case hex sha256."""
        return [url for key, urls in self.urls.items() if key.lower() == sha256 for url in urls]


def parse_links(data: bytes, owner: str, limit: int) -> Links:
    """Parse a LINKS file.

    Raises:
        LimitError: there are more than `limit` bytes.
        FormatError: the bytes are no TOML, or not a LINKS file of version 1.
    """
    where = f"{owner}: LINKS"
    try:
        links = Links.model_validate(parse_toml(data, where, limit))
    except ValidationError as exc:
        raise FormatError(f"{where} is not valid: {first_problem(exc)}") from None
    if links.version != 1:
        raise FormatError(f"{where} has the version {links.version}; only version 1 is known")
    return links


def public_url(url: str) -> str:
    """`url` for a message: without credentials and without a query, which may hold a signature."""
    import httpx  # here, because reading a carton must not pay for what only fetching needs

    try:
        place = httpx.URL(url)
        return str(place.copy_with(userinfo=b"", query=None, fragment=None))
    except (httpx.InvalidURL, ValueError):
        return "a URL that cannot be parsed"
