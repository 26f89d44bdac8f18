# SPDX-License-Identifier: Apache-2.0
"""`login` and `logout`: credentials for a registry, kept where docker and podman keep theirs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..oci.reference import is_host
from ..paths import show
from .reports import LoginReport, LogoutReport

if TYPE_CHECKING:
    from ..stores.registry import RegistryOptions


_LOOPBACK = re.compile(r"(?:localhost|127(?:\.[0-9]{1,3}){3}|\[::1\])(?::[0-9]+)?", re.IGNORECASE)


def check_host(text: str, command: str) -> None:
    """Check that a text is `HOST[:PORT]`, which is what credentials are stored for.

    Args:
        text: What was given as the host.
        command: `login` or `logout`, for the hint.

    Raises:
        UsageError: it is something else.
    """
    if is_host(text):
        return
    scheme, separator, rest = text.partition("://") if "://" in text else ("", "", text)
    whole, slash, path = rest.partition("/")
    user, _, host = whole.rpartition("@")
    # Without what stands before an '@', which may be a password.
    shown = show(f"{scheme}{separator}{host}{slash}{path}")
    if not is_host(host):
        raise UsageError(f"{shown} is no registry host", hint="write HOST[:PORT], such as ghcr.io")
    what = "is an address, not a registry host" if scheme or not path else "is a repository, not a registry host"
    if user:
        shown, what = f"the registry host {show(host)}", "is given with a user name before it"
    option = "" if command == "logout" else _option(scheme.lower(), host)
    raise UsageError(f"{shown} {what}", hint=f"run 'ocibridge {command} {host}{option}'")


def _option(scheme: str, host: str) -> str:
    """The option that makes a login use a scheme other than the default."""
    loopback = _LOOPBACK.fullmatch(host) is not None
    if scheme == "http" and not loopback:
        return " --plain-http"
    return " --no-plain-http" if scheme == "https" and loopback else ""


def login(host: str, username: str, password: str, *, registry: RegistryOptions | None = None) -> LoginReport:
    """Prove credentials against a registry, then store them.

    Args:
        host: `HOST[:PORT]`.
        username: User name.
        password: Password or token; reaches that registry and its token service only.
        registry: TLS, and which file to store in.

    Returns:
        Whether the registry required them; one that needs no login has proven nothing.

    Raises:
        UsageError: the host is none; see `check_host`.
        AuthenticationError: the registry does not accept them; nothing is stored.
        DestinationError: they cannot be stored.
    """
    check_host(host, "login")
    from ..stores import registry as registries

    proven = registries.login(host, username, password, registry).proven
    return LoginReport(host=host, username=username, proven=proven)


def logout(host: str, *, registry: RegistryOptions | None = None) -> LogoutReport:
    """Forget the credentials for a registry.

    Returns:
        Whether there were any.

    Raises:
        UsageError: the host is none; see `check_host`.
    """
    check_host(host, "logout")
    from ..stores import registry as registries

    removed = registries.logout(host, registry or registries.RegistryOptions())
    return LogoutReport(host=host, removed=removed)
