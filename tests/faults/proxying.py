# SPDX-License-Identifier: Apache-2.0
"""What tests with proxies share: an environment, names that are known here too, and what a command says."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest

from ocibridge.cli.main import main

from ..proxies import MADE_UP
from .tokens import SECRET

USER = ("proxy user", f"{SECRET}:@x")
IN_ADDRESS = f"proxy%20user:{SECRET}%3A%40x@"
"""`USER` as an address has it."""


def environment(monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    """Set these variables."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def know_made_up_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process resolve made-up names too, so that their hosts can be asked without a proxy."""
    real: Callable[..., Any] = socket.getaddrinfo

    def resolve(host: Any, *args: Any, **more: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else str(host)
        return real("127.0.0.1" if name.endswith(MADE_UP) else host, *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


def under_another_name(host: str, name: str = "registry.test") -> str:
    """`HOST:PORT` with a name that only proxies know."""
    return f"{name}:{host.rpartition(':')[2]}"


def said(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, str]:
    """Status of a command, and the one line that it says where it fails, which has no secrets."""
    capsys.readouterr()
    status = main([str(each) for each in argv])
    out, err = capsys.readouterr()
    assert err.count("\n") == (1 if status else 0), err
    for word in ("Traceback", "this should not happen", "httpx", "httpcore", "<html", SECRET):
        assert word not in out + err
    return status, err
