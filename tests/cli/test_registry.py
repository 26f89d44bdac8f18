# SPDX-License-Identifier: Apache-2.0
"""The commands against the real registry."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from ..registry import PASSWORD, USER, RegistryServer
from .conftest import Run


def test_login_push_pull_logout(
    run: Run,
    carton: Path,
    tmp_path: Path,
    auth_registry: RegistryServer,
    repository: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = auth_registry.host
    target = f"{host}/{repository}:v1"

    def typed(secret: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(secret.encode())))

    refused = run("push", carton, target)
    assert (refused.status, refused.out, refused.err.count("\n")) == (1, "", 1)
    assert "login" in refused.err

    typed("wrong\n")
    outcome = run("login", host, "-u", USER, "--password-stdin")
    assert outcome.status == 1
    typed(PASSWORD + "\n")
    assert run("login", host, "-u", USER, "--password-stdin").out == f"logged in to {host} as {USER}\n"

    pushed = run("push", carton, target, "--json")
    assert (pushed.status, pushed.err) == (0, "")
    reference = json.loads(pushed.out)["reference"]
    assert run("push", carton, target, "-q").out == reference + "\n"
    assert run("verify", reference).out.endswith("\nverified\n")
    assert run("verify", reference, "-q").out == ""
    assert run("pull", reference, tmp_path / "copy.carton").status == 0
    missing = run("inspect", f"{host}/{repository}:v2")
    assert (missing.status, missing.err.count("\n")) == (1, 1)

    assert run("logout", host).out == f"removed the credentials for {host}\n"
    assert run("inspect", reference).status == 1
    typed(PASSWORD)
    assert run("inspect", reference, "-u", USER, "--password-stdin").status == 0
    for part in (refused, outcome, pushed, missing):
        assert PASSWORD not in part.out + part.err
