# SPDX-License-Identifier: Apache-2.0
"""Credential files and helpers."""

from __future__ import annotations

import base64
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ocibridge.errors import AuthenticationError, DestinationError, FormatError, OcibridgeError, SourceError, UsageError
from ocibridge.stores.registry import RegistryOptions, login, logout
from ocibridge.stores.registry.credentials import Credential, CredentialFile, CredentialSources

SECRET = "geheim-42"
AUTH = base64.b64encode(f"u:{SECRET}".encode()).decode()
HELPER = """#!/bin/sh
# A credential helper that keeps one secret per server in a folder beside it.
cd "$(dirname "$0")" || exit 1
read -r line
case $1 in
store) key=$(echo "$line" | sed 's/.*"ServerURL": *"\\([^"]*\\)".*/\\1/' | tr / _); echo "$line" >"kept-$key" ;;
get)
  if ! [ -e "kept-$(echo "$line" | tr / _)" ]; then echo "credentials not found in native keychain"; exit 1; fi
  cat "kept-$(echo "$line" | tr / _)" ;;
erase) rm -f "kept-$(echo "$line" | tr / _)" ;;
esac
"""


@pytest.fixture
def helpers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on PATH with the helper `fake`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "docker-credential-fake"
    program.write_text(HELPER)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def keep(helpers: Path, key: str, username: str) -> None:
    (helpers / f"kept-{key.replace('/', '_')}").write_text(json.dumps({"Username": username, "Secret": SECRET}))


def write(path: Path, document: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def find(host: str, repository: str = "", **options: Any) -> Credential | None:
    return CredentialSources(host, RegistryOptions(**options)).find(repository)


@pytest.mark.parametrize(
    ("key", "host"),
    [
        ("example.org", "example.org"),
        ("EXAMPLE.org", "example.org"),
        ("https://example.org", "example.org"),
        ("https://example.org/v2/", "example.org"),
        ("http://example.org:5000/some/path", "example.org:5000"),
        ("https://index.docker.io/v1/", "docker.io"),
        ("docker.io", "index.docker.io"),
        ("index.docker.io/v1/", "registry-1.docker.io"),
    ],
)
def test_keys(isolated: Path, key: str, host: str) -> None:
    write(isolated / ".docker/config.json", {"auths": {key: {"auth": AUTH}, "other.org": {"auth": "eDp5"}}})
    assert find(host) == Credential("u", SECRET)
    assert find("example.org:1") is None


def test_forms_of_an_entry(tmp_path: Path) -> None:
    for entry, expected in (
        ({"auth": AUTH}, Credential("u", SECRET)),
        ({"username": "u", "password": SECRET}, Credential("u", SECRET)),
        ({"auth": base64.b64encode(b"u:a:b\0\0").decode()}, Credential("u", "a:b")),
        ({"identitytoken": SECRET}, Credential(identity_token=SECRET)),
        ({"auth": AUTH, "identitytoken": "i"}, Credential("u", SECRET, "i")),
        ({"registrytoken": SECRET}, Credential(registry_token=SECRET)),
        ({"auth": base64.b64encode(f"<token>:{SECRET}".encode()).decode()}, Credential(identity_token=SECRET)),
        ({}, None),
        (None, None),
        ({"auth": ""}, None),
    ):
        path = write(tmp_path / "c.json", {"auths": {"h.org": entry}})
        assert find("h.org", registry_config=path) == expected


def test_podman_keys_of_repositories(isolated: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def user(name: str) -> dict[str, str]:
        return {"auth": base64.b64encode(f"{name}:x".encode()).decode()}

    auths = {"h.org": user("host"), "h.org/a": user("space"), "h.org/a/b": user("repository")}
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(write(tmp_path / "auth.json", {"auths": auths})))
    for repository, expected in (("a/b", "repository"), ("a/c", "space"), ("ab", "host"), ("", "host")):
        found = find("h.org", repository)
        assert found
        assert found.username == expected
    write(isolated / ".docker/config.json", {"auths": {"h.org": user("docker")}})
    found = find("h.org", "a/b")
    assert found
    assert found.username == "docker"


def test_explicit_user_wins(isolated: Path) -> None:
    write(isolated / ".docker/config.json", {"auths": {"h.org": {"auth": AUTH}}})
    assert find("h.org", username="me", password="x") == Credential("me", "x")
    assert SECRET not in repr(find("h.org"))


def test_helpers(isolated: Path, helpers: Path) -> None:
    keep(helpers, "h.org", "helped")
    keep(helpers, "t.org", "<token>")
    keep(helpers, "https://index.docker.io/v1/", "hub")
    write(isolated / ".docker/config.json", {"credHelpers": {"h.org": "fake"}, "auths": {"h.org": {"auth": AUTH}}})
    assert find("h.org") == Credential("helped", SECRET)
    write(isolated / ".docker/config.json", {"credsStore": "fake", "auths": {"x.org": {"auth": AUTH}, "h.org": {}}})
    assert find("t.org") == Credential(identity_token=SECRET)
    assert find("docker.io") == Credential("hub", SECRET)
    assert find("x.org") == Credential("u", SECRET)
    assert find("y.org") is None


@pytest.mark.parametrize("name", ["missing", "../fake", "", 7])
def test_helpers_that_do_not_work(isolated: Path, name: object) -> None:
    write(isolated / ".docker/config.json", {"credsStore": name})
    sources = CredentialSources("h.org", RegistryOptions())
    assert sources.find("") is None
    assert bool(sources.complaint) is (isinstance(name, str) and bool(name))


@pytest.mark.parametrize("output", ["", "no json", "[]", '{"Username":1,"Secret":2}', '{"Username":"u"}'])
def test_helpers_that_talk_nonsense(isolated: Path, helpers: Path, output: str) -> None:
    (helpers / "kept-h.org").write_text(output)
    write(isolated / ".docker/config.json", {"credsStore": "fake"})
    sources = CredentialSources("h.org", RegistryOptions())
    assert sources.find("") is None
    assert "gave no credential" in (sources.complaint or "")


@pytest.mark.parametrize(
    "document",
    [
        f'{{"auths": {SECRET}',
        f'"{SECRET}"',
        {"auths": SECRET},
        {"auths": {"h.org": {"auth": SECRET}}},
        {"auths": {"h.org": {"auth": base64.b64encode(SECRET.encode()).decode()}}},
        {"auths": {"h.org": {"identitytoken": [SECRET]}}},
        {"credHelpers": [SECRET]},
    ],
)
def test_malformed_files(isolated: Path, document: object) -> None:
    path = write(isolated / ".docker/config.json", document)
    with pytest.raises(FormatError) as caught:
        find("h.org")
    assert str(path) in str(caught.value)
    assert SECRET not in str(caught.value)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.one_of(st.binary(max_size=100), st.from_regex(rb'\{"auths":\{"h\.org":.{0,40}\}\}', fullmatch=True)))
def test_any_bytes_end_in_a_credential_or_an_error(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(data)
    try:
        find("h.org", registry_config=path)
    except OcibridgeError:
        pass


def test_named_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="--registry-config"):
        find("h.org", registry_config=tmp_path / "none.json")


def test_storing_keeps_what_else_is_there(tmp_path: Path) -> None:
    real = write(tmp_path / "real.json", {"psFormat": "x", "auths": {"a.org": {"auth": "eDp5"}}, "plugins": {"ü": 1}})
    link = tmp_path / "link.json"
    link.symlink_to(real)
    CredentialFile(link).put("docker.io", "u", SECRET)
    assert link.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o600
    assert json.loads(real.read_text()) == {
        "psFormat": "x",
        "auths": {"a.org": {"auth": "eDp5"}, "https://index.docker.io/v1/": {"auth": AUTH}},
        "plugins": {"ü": 1},
    }
    assert CredentialFile(link).remove("docker.io")
    assert list(json.loads(real.read_text())["auths"]) == ["a.org"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.json", "real.json"]


def test_storing_through_a_helper(tmp_path: Path, helpers: Path) -> None:
    path = write(tmp_path / "c.json", {"credsStore": "fake"})
    assert CredentialFile(path).put("h.org", "u", SECRET) == "docker-credential-fake"
    assert SECRET not in path.read_text()
    assert AUTH not in path.read_text()
    assert find("h.org", registry_config=path) == Credential("u", SECRET)
    options = RegistryOptions(registry_config=path)
    assert logout("h.org", options)
    assert not logout("h.org", options)
    assert find("h.org", registry_config=path) is None


def test_storing_where_it_cannot_be_stored(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OcibridgeError):
        CredentialFile(tmp_path / "file" / "c.json").put("h.org", "u", SECRET)
    with pytest.raises((DestinationError, SourceError)):
        CredentialFile(tmp_path).put("h.org", "u", SECRET)
    with pytest.raises(AuthenticationError, match="not installed"):
        CredentialFile(write(tmp_path / "c.json", {"credsStore": "missing"})).put("h.org", "u", SECRET)


@pytest.mark.parametrize(("username", "password"), [("", "x"), ("u", ""), ("a:b", "x"), ("a\nb", "x")])
def test_logins_that_cannot_be(username: str, password: str) -> None:
    with pytest.raises(UsageError):
        login("127.0.0.1:1", username, password)
