# SPDX-License-Identifier: Apache-2.0
"""The two real registries of the mirror tests."""

from __future__ import annotations

from ..mirror.conftest import source, target

__all__ = ["source", "target"]
