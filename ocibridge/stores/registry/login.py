# SPDX-License-Identifier: Apache-2.0
"""Login and logout."""

from __future__ import annotations

from dataclasses import replace

from ...errors import AuthenticationError
from .credentials import check_login, login_file
from .http import Call, Host
from .options import RegistryOptions


def login(host: str, username: str, password: str, options: RegistryOptions | None = None) -> str:
    """Prove a login against a registry, then store it ("Determining Support": `GET /v2/`).

    Args:
        host: Registry host with its port, if any.
        username: User name.
        password: Password or access token.
        options: How to reach the registry; `registry_config` names the file to store in.

    Returns:
        Where the login was stored: a file, or the name of a credential helper.

    Raises:
        UsageError: user or password are empty or cannot be sent.
        AuthenticationError: the registry refused the login, or the credential helper did.
        NetworkError: the registry cannot be reached.
        DestinationError: the credential file cannot be written.
    """
    check_login(username, password)
    options = options or RegistryOptions()
    # A file that cannot be read must not be found out about only after the password has been sent.
    store = login_file(options)
    reached = Host(host, replace(options, username=username, password=password))
    try:
        reached.request(Call("GET", "/v2/", "logging in", host))
    except AuthenticationError as exc:
        raise AuthenticationError(
            f"{host} refused the login of {username!r}", hint="check user and password", status=exc.status
        ) from None
    finally:
        reached.close()
    return store.put(host, username, password)


def logout(host: str, options: RegistryOptions | None = None) -> bool:
    """Forget the stored login of a host.

    Returns:
        False if there was none.

    Raises:
        AuthenticationError: the credential helper failed.
        DestinationError: the credential file cannot be written.
    """
    return login_file(options or RegistryOptions()).remove(host)
