# SPDX-License-Identifier: Apache-2.0
"""The proxy that the environment names for an address: `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`."""

from __future__ import annotations

import importlib.util
import ssl
from dataclasses import dataclass

import httpcore
import httpx

from ...errors import NetworkError
from ...settings import proxy_variable
from .options import is_local


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy, and who named it.

    Attributes:
        proxy: Its address, and the credentials for it.
        variable: The environment variable that names it.
    """

    proxy: httpx.Proxy
    variable: str

    def __str__(self) -> str:
        """The proxy without credentials, for messages."""
        return f"the proxy {self.proxy.url.netloc.decode('ascii', 'replace')} ({self.variable})"

    @property
    def is_tls(self) -> bool:
        """True if the proxy itself is reached by TLS."""
        return self.proxy.url.scheme == "https"

    @property
    def is_socks(self) -> bool:
        """True if it is asked by SOCKS."""
        return self.proxy.url.scheme.startswith("socks")

    def to_httpcore(self, context: ssl.SSLContext) -> httpcore.Proxy:
        """The same for httpcore; `context` is for a proxy that is reached by TLS."""
        url = self.proxy.url
        return httpcore.Proxy(
            httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            auth=self.proxy.raw_auth,
            headers=self.proxy.headers.raw,
            ssl_context=context if self.is_tls else None,
        )


def proxy_for(url: httpx.URL, given: str | None = None) -> Proxy | None:
    """The proxy for an address: the one of the options, else the one that the environment names.

    As in Go's net/http, which other registry clients use, there is none for this machine itself.

    Args:
        url: The address.
        given: The proxy of the options; an empty one is none at all.

    Raises:
        NetworkError: what the environment names cannot be used.
    """
    if is_local(url.host):
        return None
    from requests.utils import get_environ_proxies, select_proxy  # comes with oras; httpx keeps its own to itself

    address = str(url.copy_with(userinfo=b"", query=None, fragment=None))
    text = select_proxy(address, get_environ_proxies(address)) if given is None else given
    if not text:
        return None
    variable = proxy_variable(url.scheme) if given is None else "--proxy"
    text = text if "://" in text else f"http://{text}"
    scheme = text.partition("://")[0]
    try:
        made = Proxy(httpx.Proxy(text), variable)
        valid = bool(made.proxy.url.host) and scheme in ("http", "https", "socks5", "socks5h")
    except (ValueError, httpx.InvalidURL):
        valid = False
    if not valid:
        known = scheme in ("http", "https", "socks5", "socks5h")
        raise NetworkError(
            f"the proxy that {variable} names {'has no valid address' if known else f'has the scheme {scheme}://'},"
            " and cannot be used",
            hint=f"set {variable}=socks5://HOST:PORT or {variable}=http://HOST:PORT, or name the registry in NO_PROXY",
        )
    if made.is_socks and importlib.util.find_spec("socksio") is None:
        raise NetworkError(
            f"{variable} names a SOCKS proxy, for which a package is missing",
            hint="run pip install 'ocibridge[socks]', or use an HTTP proxy",
        )
    return made
