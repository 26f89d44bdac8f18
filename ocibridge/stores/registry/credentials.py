# SPDX-License-Identifier: Apache-2.0
"""Stored credentials: docker's config.json, podman's auth.json, credential helpers.

Formats: docker/cli `config.json`; containers-auth.json(5); docker-credential-helpers protocol.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import AuthenticationError, FormatError, SourceError, UsageError, reading, writing
from ...io.atomic import write_file
from ...oci import parse_json
from ...settings import DEFAULT_LIMITS, docker_config, podman_auth_files
from .options import DOCKER_HUB, RegistryOptions

HELPER_TIMEOUT = 60.0
"""Seconds for a credential helper; some ask the user."""
_HUB_KEY = "https://index.docker.io/v1/"
_HELPER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_TOKEN_USER = "<token>"  # noqa: S105 - the name that helpers use for identity tokens


@dataclass(frozen=True, slots=True)
class Credential:
    """Credentials for one registry; the repr shows none of them.

    Attributes:
        username: User name.
        password: Password or access token of the user.
        identity_token: OAuth2 refresh token, to be exchanged at the token server.
        registry_token: Bearer token to be used as it is.
    """

    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    identity_token: str | None = field(default=None, repr=False)
    registry_token: str | None = field(default=None, repr=False)


class CredentialSources:
    """Sources of the credentials for one host; nothing is read before `find`.

    Attributes:
        complaint: The failure of a credential helper, for the hint of a later error.
        empty: Whether the last search found nothing.
    """

    def __init__(self, host: str, options: RegistryOptions) -> None:
        self.complaint: str | None = None
        self.empty = True
        self._host = host
        self._options = options
        self._known: dict[str, Credential | None] = {}
        self._lock = threading.Lock()

    @property
    def advice(self) -> str:
        """Return the next step after a refused or missing login."""
        login = f"run 'ocibridge login {self._host}'"
        if self._options.username is None:
            return login
        return f"check the user name and the password that were given, or leave them out and {login}"

    def find(self, repository: str) -> Credential | None:
        """The credential for a repository of the host (`""` for the host itself), or None.

        Raises:
            FormatError: a credential file is malformed.
            SourceError: a credential file cannot be read, or the one named does not exist.
        """
        with self._lock:
            if repository not in self._known:
                self._known[repository] = self._search(repository)
            self.empty = self._known[repository] is None
            return self._known[repository]

    def _search(self, repository: str) -> Credential | None:
        if self._options.username is not None:
            return Credential(self._options.username, self._options.password or "")
        names = _names(self._host, repository)
        for path in _files(self._options.registry_config):
            config = CredentialFile(path)
            for helper in config.helpers(self._host, names):
                try:
                    found = _ask_helper(helper, self._host)
                except AuthenticationError as exc:
                    self.complaint = exc.message
                    continue
                if found:
                    return found
            found = config.inline(names)
            if found:
                return found
        return None


class CredentialFile:
    """One `config.json` or `auth.json`; an absent file is an empty one.

    Raises:
        FormatError: it is no such file; the message never shows its content.
        SourceError: it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.document: dict[str, Any] = {}
        with reading(path):
            if path.exists():
                with open(path, "rb") as file:
                    data = file.read(DEFAULT_LIMITS.metadata + 1)
                self.document = self._parse(data) if data.strip() else {}

    def helpers(self, host: str, names: list[str]) -> list[str]:
        """The credential helpers that are responsible for a host, the most specific one first."""
        special = {_normal(key): value for key, value in self._table("credHelpers").items()}
        found = [special[name] for name in names if name in special]
        general = self.document.get("credsStore")
        return [name for name in [*found, general] if isinstance(name, str) and name]

    def inline(self, names: list[str]) -> Credential | None:
        """The credential written into the file for the first of `names` that has one."""
        table = {_normal(key): value for key, value in self._table("auths").items()}
        for name in names:
            entry = table.get(name)
            if isinstance(entry, dict):
                found = self._entry(name, entry)
                if found:
                    return found
        return None

    def put(self, host: str, username: str, password: str) -> str:
        """Store a credential; where it went.

        Raises:
            AuthenticationError: the credential helper refused it.
            DestinationError: the file cannot be written.
        """
        key = _key(host)
        helpers = self.helpers(host, _names(host, ""))
        if helpers:
            request = {"ServerURL": key, "Username": username, "Secret": password}
            _run_helper(helpers[0], "store", json.dumps(request))
            self._auths()[key] = {}
            self._write()
            return f"docker-credential-{helpers[0]}"
        encoded = base64.b64encode(f"{username}:{password}".encode()).decode()
        self._auths()[key] = {"auth": encoded}
        self._write()
        return str(self.path)

    def remove(self, host: str) -> bool:
        """Forget the credential of a host; False if there was none."""
        names = _names(host, "")
        gone = False
        for helper in self.helpers(host, names)[:1]:
            with suppress(AuthenticationError):
                gone = _ask_helper(helper, host) is not None
            _run_helper(helper, "erase", _key(host), missing_is_fine=True)
        keys = [key for key in self._table("auths") if _normal(key) in names]
        if keys:
            for key in keys:
                del self._auths()[key]
            self._write()
        return gone or bool(keys)

    def _parse(self, data: bytes) -> dict[str, Any]:
        try:
            document = parse_json(data, f"the credential file {self.path}", DEFAULT_LIMITS.metadata)
        except FormatError:
            # The parser's own words could quote a secret.
            raise self._defect("is not valid JSON") from None
        if not isinstance(document, dict):
            raise self._defect("is not a JSON object")
        return document

    def _table(self, name: str) -> dict[str, Any]:
        table = self.document.get(name) or {}
        if not isinstance(table, dict):
            raise self._defect(f"has no object under {name!r}")
        return table

    def _auths(self) -> dict[str, Any]:
        table = self._table("auths")
        self.document["auths"] = table
        return table

    def _entry(self, name: str, entry: dict[str, Any]) -> Credential | None:
        values = {key: entry.get(key) or None for key in ("auth", "username", "password")}
        identity, bearer = entry.get("identitytoken") or None, entry.get("registrytoken") or None
        if not all(value is None or isinstance(value, str) for value in (*values.values(), identity, bearer)):
            raise self._defect(f"has a value for {name!r} that is no text")
        username, password = values["username"], values["password"]
        if values["auth"]:
            try:
                decoded = base64.b64decode(values["auth"], validate=True).decode()
            except (binascii.Error, UnicodeDecodeError, ValueError):
                raise self._defect(f"has an 'auth' for {name!r} that is not base64") from None
            username, colon, password = decoded.rstrip("\x00").partition(":")
            if not colon:
                raise self._defect(f"has an 'auth' for {name!r} without user and password")
        if username == _TOKEN_USER:
            return Credential(identity_token=password)
        if not (username or identity or bearer):
            return None
        return Credential(username, password or "" if username else None, identity, bearer)

    def _defect(self, what: str) -> FormatError:
        return FormatError(
            f"the credential file {self.path} {what}", hint="repair it, or name another one with --registry-config"
        )

    def _write(self) -> None:
        target = self.path.resolve()
        with writing(self.path):
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        data = json.dumps(self.document, indent="\t", ensure_ascii=False).encode() + b"\n"
        write_file(target, data, mode=0o600)


def login_file(options: RegistryOptions) -> CredentialFile:
    """The file that `login` writes: `--registry-config`, else docker's."""
    return CredentialFile(options.registry_config or docker_config())


def check_login(username: str, password: str) -> None:
    """Refuse credentials that the Basic scheme cannot express (RFC 7617, section 2).

    Raises:
        UsageError: the user is empty, or has a colon or control character in it; the password is empty.
    """
    if not username or not password:
        raise UsageError("a login needs a user name and a password", hint="give --username and --password-stdin")
    if ":" in username or not username.isprintable():
        raise UsageError("the user name has a colon or control character in it", hint="check --username")


def _files(explicit: Path | None) -> Iterator[Path]:
    if explicit is not None:
        if not explicit.exists():
            raise SourceError(f"the credential file {explicit} does not exist", hint="check --registry-config")
        yield explicit
        return
    yield docker_config()
    yield from podman_auth_files()


def _key(host: str) -> str:
    return _HUB_KEY if host in DOCKER_HUB else host


def _names(host: str, repository: str) -> list[str]:
    """Names of the entries for a repository, after `_normal`, the most specific first."""
    base = "docker.io" if host in DOCKER_HUB else host.lower()
    parts = repository.split("/") if repository else []
    return ["/".join([base, *parts[:count]]) for count in range(len(parts), -1, -1)]


def _normal(key: str) -> str:
    scheme, separator, rest = key.partition("://")
    if separator and scheme in ("http", "https"):
        # docker's keys with a scheme are URLs of whole hosts, whatever path they have.
        key = rest.partition("/")[0]
    host, slash, path = key.rstrip("/").partition("/")
    host = "docker.io" if host in DOCKER_HUB else host.lower()
    return host if path in ("v1", "v2") else host + slash + path


def _ask_helper(helper: str, host: str) -> Credential | None:
    output = _run_helper(helper, "get", _key(host), missing_is_fine=True)
    if output is None:
        return None
    try:
        document = json.loads(output)
        username, secret = document["Username"], document["Secret"]
    except (ValueError, LookupError, TypeError, RecursionError):
        raise AuthenticationError(f"the credential helper docker-credential-{helper} gave no credential") from None
    if not (isinstance(username, str) and isinstance(secret, str)):
        raise AuthenticationError(f"the credential helper docker-credential-{helper} gave no credential")
    if username == _TOKEN_USER:
        return Credential(identity_token=secret)
    return Credential(username, secret) if username else None


def _run_helper(helper: str, verb: str, text: str, missing_is_fine: bool = False) -> bytes | None:
    """Run a helper; its output, or None where it knows no such credential."""
    program = f"docker-credential-{helper}"
    if not _HELPER_NAME.fullmatch(helper):
        raise AuthenticationError("the name of a credential helper has a character that is not allowed")
    try:
        done = subprocess.run([program, verb], input=text.encode(), capture_output=True, timeout=HELPER_TIMEOUT)
    except FileNotFoundError:
        raise AuthenticationError(f"the credential helper {program} is not installed") from None
    except subprocess.TimeoutExpired:
        raise AuthenticationError(
            f"the credential helper {program} did not respond in {HELPER_TIMEOUT:.0f} s"
        ) from None
    except OSError as exc:
        raise AuthenticationError(f"the credential helper {program} cannot be run ({exc.strerror})") from None
    if done.returncode:
        # Its own words are not shown: a helper may repeat what it was given.
        if missing_is_fine and b"not found" in (done.stdout + done.stderr).lower():
            return None
        raise AuthenticationError(f"the credential helper {program} failed with status {done.returncode}")
    return done.stdout
