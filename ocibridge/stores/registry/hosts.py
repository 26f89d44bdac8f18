# SPDX-License-Identifier: Apache-2.0
"""The hosts that a program speaks to, each with one set of connections, tokens and back-off."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import TracebackType

from .backoff import HostStats
from .http import Host
from .options import RegistryOptions


class Hosts:
    """The hosts in use, shared by several stores; closing it closes them.

    Example:
        >>> with Hosts() as hosts:
        ...     a, b = (hosts.get("localhost:5000", RegistryOptions()) for _ in range(2))
        ...     a is b
        True
    """

    def __init__(self) -> None:
        self._hosts: dict[tuple[str, RegistryOptions], Host] = {}
        self._lock = threading.Lock()

    def get(self, name: str, options: RegistryOptions) -> Host:
        """The one `Host` of this name and these options."""
        with self._lock:
            key = (name, options)
            if key not in self._hosts:
                self._hosts[key] = Host(name, options)
            return self._hosts[key]

    @property
    def stats(self) -> dict[str, HostStats]:
        """What was asked of each host so far, by name."""
        with self._lock:
            found: dict[str, HostStats] = {}
            for host in self._hosts.values():
                found[host.name] = found.get(host.name, HostStats()) + host.stats
            return found

    def close(self) -> None:
        """Close every host."""
        with self._lock:
            for host in self._hosts.values():
                host.close()
            self._hosts.clear()

    def __enter__(self) -> Hosts:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def without_secrets(options: RegistryOptions) -> RegistryOptions:
    """The same options without user and password, for another host than the one they were given for."""
    return replace(options, username=None, password=None)
