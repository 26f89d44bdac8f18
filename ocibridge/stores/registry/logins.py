# SPDX-License-Identifier: Apache-2.0
"""Login and logout."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...errors import AuthenticationError, NotFound, StoreError
from .credentials import check_login, login_file
from .options import RegistryOptions

_API = "docker-distribution-api-version"


@dataclass(frozen=True, slots=True)
class Login:
    """Result of a login.

    Attributes:
        stored: A file, or the name of a credential helper.
        proven: True if the registry required it; one that needs no login has proven nothing.
    """

    stored: str
    proven: bool


def login(host: str, username: str, password: str, options: RegistryOptions | None = None) -> Login:
    """Prove a login against a registry, then store it ("Determining Support": `GET /v2/`).

    Args:
        host: Registry host with its port, if any.
        username: User name.
        password: Password or access token.
        options: How to reach the registry; `registry_config` names the file to store in.

    Raises:
        UsageError: user or password are empty or cannot be sent.
        AuthenticationError: the registry refused the login, or the credential helper did.
        StoreError: there is no registry.
        NetworkError: the registry cannot be reached.
        DestinationError: the credential file cannot be written.
    """
    from .http import Call, RegistryHTTP  # logout needs neither

    check_login(username, password)
    options = options or RegistryOptions()
    # A file that cannot be read must not be found out about only after the password has been sent.
    store = login_file(options)
    client = RegistryHTTP(host, replace(options, username=username, password=password))
    try:
        reached = client.host(host)
        response = client.request(Call(reached, "GET", "/v2/", "logging in", host))
        proven = reached.auth.asked
    except AuthenticationError as exc:
        raise AuthenticationError(
            f"{host} refused the login of {username!r}", hint="check user and password", status=exc.status
        ) from None
    except NotFound as exc:
        # Not the hint about names and tags: there are none.
        exc.hint = "check the host and the port"
        raise
    finally:
        client.close()
    if not proven and _API not in response.headers and response.content.strip() not in (b"", b"{}", b"true"):
        raise StoreError(
            f"{host}: logging in failed because it responded as a web server, not as a registry",
            hint="check the host and the port",
        )
    return Login(store.put(host, username, password), proven)


def logout(host: str, options: RegistryOptions | None = None) -> bool:
    """Forget the stored login of a host.

    Returns:
        False if there was none.

    Raises:
        AuthenticationError: the credential helper failed.
        DestinationError: the credential file cannot be written.
    """
    return login_file(options or RegistryOptions()).remove(host)
