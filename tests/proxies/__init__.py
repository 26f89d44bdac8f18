# SPDX-License-Identifier: Apache-2.0
"""Proxies for tests: what passes through them, and names that only they can resolve.

`HttpProxy` forwards requests and opens tunnels, and passes on a connection that ends or is reset as such. SOCKS5, and
HTTP tunnels by an implementation that is not ours, come from the package tiny-proxy.
"""

from .forward import HttpProxy, Passed
from .names import MADE_UP, resolve
from .tiny import ConnectProxy, Socks5Proxy

__all__ = ["MADE_UP", "ConnectProxy", "HttpProxy", "Passed", "Socks5Proxy", "resolve"]
