# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from ..leaks import nothing_left

__all__ = ["nothing_left"]


@pytest.fixture(autouse=True)
def clean(nothing_left: None) -> None:
    """See `tests.leaks`."""
