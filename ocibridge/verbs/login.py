# SPDX-License-Identifier: Apache-2.0
"""`login` and `logout`: credentials for a registry, kept where docker and podman keep theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..stores.registry import RegistryOptions


def login(host: str, username: str, password: str, *, registry: RegistryOptions | None = None) -> None:
    """Prove credentials against a registry, then store them.

    Args:
        host: `HOST[:PORT]`.
        username: User name.
        password: Password or token; reaches that registry and its token service only.
        registry: TLS, and which file to store in.

    Raises:
        AuthenticationError: the registry does not accept them; nothing is stored.
        DestinationError: they cannot be stored.
    """
    from ..stores import registry as registries

    registries.login(host, username, password, registry or registries.RegistryOptions())


def logout(host: str, *, registry: RegistryOptions | None = None) -> bool:
    """Forget the credentials for a registry.

    Returns:
        Whether there were any.
    """
    from ..stores import registry as registries

    return registries.logout(host, registry or registries.RegistryOptions())
