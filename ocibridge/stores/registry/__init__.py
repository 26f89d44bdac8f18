# SPDX-License-Identifier: Apache-2.0
"""OCI registries (opencontainers distribution-spec)."""

from .hosts import Hosts
from .login import login, logout
from .options import RegistryOptions, Retry, Timeouts
from .store import RegistryStore

__all__ = ["Hosts", "RegistryOptions", "RegistryStore", "Retry", "Timeouts", "login", "logout"]
