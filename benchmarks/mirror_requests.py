# SPDX-License-Identifier: Apache-2.0
"""What was asked of a registry, as its access log says."""

from __future__ import annotations

import re
import secrets
import time
import urllib.request
from dataclasses import dataclass

from .server import Server

_LINE = re.compile(r'"([A-Z]+) (/v2/\S*) HTTP/[\d.]+" (\d{3}) ')
_PATIENCE = 30.0
"""Seconds until a registry that does not log what it has answered is given up."""


@dataclass(frozen=True)
class Traffic:
    """The requests of a run.

    Attributes:
        requests: All of them.
        content: Those for manifests and blobs; the others list tags, or ask whether there is a registry at all.
        moved: Those that carried bytes of blobs, to the registry or from it.
    """

    requests: int
    content: int
    moved: int


def traffic(log: str) -> Traffic:
    """Count the requests of a log in Apache's format, whatever else stands in it."""
    found = [(method, path, int(status)) for method, path, status in _LINE.findall(log)]
    content = [each for each in found if "/manifests/" in each[1] or "/blobs/" in each[1]]
    return Traffic(len(found), len(content), sum(_moves(*each) for each in content))


def _moves(method: str, path: str, status: int) -> bool:
    """Whether a request carries a blob (distribution-spec, "Pulling blobs", "Pushing blobs"); that which ends an upload
    in pieces counts, too."""
    if "/blobs/" not in path:
        return False
    if method == "GET":
        return "/blobs/uploads/" not in path and status < 300
    return method in ("PATCH", "PUT") or (method == "POST" and "digest=" in path)


class AccessLog:
    """The log of a registry, read on from where it was read last.

    Args:
        server: A registry that logs its requests.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._position = 0
        self.read()

    def read(self) -> str:
        """What it has logged since the last call, and all that it has answered meanwhile."""
        mark = secrets.token_hex(16)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        opener.open(f"http://{self._server.host}/v2/?{mark}", timeout=_PATIENCE).close()
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            with self._server.log.open("rb") as file:
                file.seek(self._position)
                data = file.read()
            before, found, rest = data.partition(mark.encode())
            if found and b"\n" in rest:
                self._position += len(data) - len(rest) + rest.index(b"\n") + 1
                return before[: before.rindex(b'"')].decode(errors="replace")
            time.sleep(0.01)
        raise SystemExit(f"{self._server.host} does not log its requests")
