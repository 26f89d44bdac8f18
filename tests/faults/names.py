# SPDX-License-Identifier: Apache-2.0
"""The names under which clients ask for the servers."""

from __future__ import annotations

THROUGH_A_PROXY = {"127.0.0.1": "registry.test", "localhost": "other.test"}
"""What they are called where a proxy is the only one that can resolve their names."""

names: dict[str, str] = {}
"""What they are called now, where that is not their own name."""


def asked_as(name: str) -> str:
    """What a client calls the server `name`."""
    return names.get(name, name)
