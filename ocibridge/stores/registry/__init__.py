# SPDX-License-Identifier: Apache-2.0
"""OCI registries (opencontainers distribution-spec)."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .hosts import Hosts
from .options import RateLimits, RegistryOptions, Retry, Timeouts

if TYPE_CHECKING:
    from .client import RegistryClient
    from .logins import Login, login, logout
    from .store import RegistryStore

# The ORAS client is slow to import, and only who speaks to a registry needs it.
_LAZY = {
    "Login": "logins",
    "RegistryClient": "client",
    "RegistryStore": "store",
    "login": "logins",
    "logout": "logins",
}

__all__ = [
    "Hosts",
    "Login",
    "RateLimits",
    "RegistryClient",
    "RegistryOptions",
    "RegistryStore",
    "Retry",
    "Timeouts",
    "login",
    "logout",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
