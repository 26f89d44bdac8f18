# SPDX-License-Identifier: Apache-2.0
"""What people paste in place of a reference or of a host: addresses with a scheme before them."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

import ocibridge
from ocibridge.cli.main import main

from ..registry import PASSWORD, USER, RegistryServer
from .conftest import Run


@pytest.mark.parametrize("scheme", ["oci://", "docker://", "OCI://"])
def test_commands_take_a_registry_with_a_scheme(
    scheme: str,
    run: Run,
    carton: Path,
    registry: RegistryServer,
    repository: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    place = f"{registry.host.replace('127.0.0.1', 'localhost')}/{repository}"
    pushed = run("push", carton, f"{scheme}{place}:v1", "-q")
    assert (pushed.status, pushed.err) == (0, "")
    pinned = pushed.out.strip()
    assert pinned.startswith(f"{place}@sha256:")
    assert list(tmp_path.iterdir()) == []
    assert json.loads(run("inspect", f"{scheme}{place}:v1", "--json").out)["source"] == pinned
    assert run("verify", f"{scheme}{pinned}", "-q").status == 0
    copied = run("copy", f"{scheme}{place}:v1", f"{scheme}{place}/copy", "-q")
    assert (copied.status, copied.out.partition("@")[0]) == (0, f"{place}/copy")
    assert run("convert", f"{scheme}{place}:v1", f"{scheme}{place}:v2", "--dialect", "modelpack", "-q").status == 0
    assert run("volume", "prepare", f"{scheme}{place}:v1", "-q").status == 0
    assert run("copy", f"{scheme}{place}:v1", "--to", "oci-archive:models.tar", "-q").status == 0
    restored = run("copy", "--from", "oci-archive:models.tar", "--to", f"{scheme}{place}/restored", "-q")
    assert (restored.status, restored.out.startswith(f"{place}/restored/{repository}:v1@sha256:")) == (0, True)
    assert run("pull", f"{scheme}{place}/restored/{repository}:v1", "again.carton", "-q").status == 0
    assert sorted(each.name for each in tmp_path.iterdir()) == ["again.carton", "models.tar"]


@pytest.mark.parametrize(
    ("host", "message"),
    [
        ("http://localhost:5000", "is an address, not a registry host; run 'ocibridge login localhost:5000'"),
        ("http://127.0.0.1:5000/", "is an address, not a registry host; run 'ocibridge login 127.0.0.1:5000'"),
        ("HTTP://[::1]/v2/", "is an address, not a registry host; run 'ocibridge login [::1]'"),
        (
            "https://localhost:5000/",
            "is an address, not a registry host; run 'ocibridge login localhost:5000 --no-plain-http'",
        ),
        ("http://reg.lan:5000", "is an address, not a registry host; run 'ocibridge login reg.lan:5000 --plain-http'"),
        ("https://ghcr.io/v2/", "is an address, not a registry host; run 'ocibridge login ghcr.io'"),
        ("https://index.docker.io/v1/", "is an address, not a registry host; run 'ocibridge login index.docker.io'"),
        ("oci://ghcr.io", "is an address, not a registry host; run 'ocibridge login ghcr.io'"),
        ("docker://ghcr.io/org", "is an address, not a registry host; run 'ocibridge login ghcr.io'"),
        ("ghcr.io/", "is an address, not a registry host; run 'ocibridge login ghcr.io'"),
        ("ghcr.io/org/model", "is a repository, not a registry host; run 'ocibridge login ghcr.io'"),
        ("https://", "is no registry host; write HOST[:PORT], such as ghcr.io"),
        ("oci:///a", "is no registry host; write HOST[:PORT], such as ghcr.io"),
        ("a b", "is no registry host; write HOST[:PORT], such as ghcr.io"),
        ("", "is no registry host; write HOST[:PORT], such as ghcr.io"),
    ],
)
def test_a_login_to_what_is_no_host_names_the_host(
    host: str, message: str, run: Run, isolated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = run("login", host)
    assert (outcome.status, outcome.out, outcome.err) == (2, "", f"ocibridge: error: {host!r} {message}\n")
    other = message.replace("ocibridge login", "ocibridge logout").replace(" --no-plain-http", "")
    outcome = run("logout", host)
    expected = f"ocibridge: error: {host!r} {other.replace(' --plain-http', '')}\n"
    assert (outcome.status, outcome.out, outcome.err) == (2, "", expected)
    with pytest.raises(ocibridge.UsageError, match="registry host"):
        ocibridge.login(host, "me", "hunter2")
    with pytest.raises(ocibridge.UsageError, match="registry host"):
        ocibridge.logout(host)
    assert list(isolated.iterdir()) == []


@pytest.mark.parametrize("host", ["https://me:hunter2@ghcr.io/", "me:hunter2@ghcr.io", "me:hunter2@ghcr.io/org"])
def test_a_password_before_the_host_is_not_shown(host: str, run: Run) -> None:
    outcome = run("login", host)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err == (
        "ocibridge: error: the registry host 'ghcr.io' is given with a user name before it; "
        "run 'ocibridge login ghcr.io'\n"
    )


def test_the_next_step_of_a_login_works(
    run: Run, auth_registry: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = run("login", f"http://{auth_registry.host}")
    command = refused.err.partition("run '")[2].partition("'")[0].split()
    assert command == ["ocibridge", "login", auth_registry.host]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PASSWORD.encode())))
    assert main([*command[1:], "--username", USER, "--password-stdin"]) == 0
    assert run("logout", auth_registry.host).out == f"removed the credentials for {auth_registry.host}\n"


def test_the_next_step_for_a_pasted_address_works(
    run: Run, carton: Path, registry: RegistryServer, repository: str
) -> None:
    outcome = run("push", carton, f"http://{registry.host}/{repository}:v1")
    assert (outcome.status, outcome.out) == (2, "")
    what, _, reference = outcome.err.strip().partition("; write ")
    assert what == f"ocibridge: error: 'http://{registry.host}/{repository}:v1' is a web address, not a reference"
    assert run("push", carton, reference, "-q").status == 0
    assert run("inspect", reference).status == 0
