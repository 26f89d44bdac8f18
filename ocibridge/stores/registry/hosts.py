# SPDX-License-Identifier: Apache-2.0
"""The hosts that a command speaks to. Nothing is imported before one is."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING

from .options import RegistryOptions

if TYPE_CHECKING:
    from .host import Host
    from .limits import Permits
    from .retry import HostStats


class Hosts:
    """The hosts in use, shared by all stores of a command; closing it closes them.

    Example:
        >>> with Hosts() as hosts:
        ...     a, b = (hosts.get("localhost:5000", RegistryOptions()) for _ in range(2))
        ...     a is b
        True
    """

    def __init__(self) -> None:
        self._hosts: dict[tuple[str, RegistryOptions], Host] = {}
        self._permits: Permits | None = None
        self._lock = threading.Lock()

    def get(self, name: str, options: RegistryOptions) -> Host:
        """The one `Host` of this name and these options; see `RegistryOptions.per_host`."""
        from .host import Host
        from .limits import Permits

        options = options.for_host(name)
        with self._lock:
            key = (name, options)
            if key not in self._hosts:
                self._permits = self._permits or Permits()
                self._hosts[key] = Host(name, options, self._permits)
            return self._hosts[key]

    @property
    def stats(self) -> dict[str, HostStats]:
        """Statistics of the requests to each host, by name."""
        with self._lock:
            found: dict[str, HostStats] = {}
            for host in self._hosts.values():
                found[host.name] = found[host.name] + host.stats if host.name in found else host.stats
            return found

    def interrupt(self) -> None:
        """Break every connection to every host; see `Host.interrupt`."""
        with self._lock:
            for host in self._hosts.values():
                host.interrupt()

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
