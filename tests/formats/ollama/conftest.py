# SPDX-License-Identifier: Apache-2.0
"""The models folder of the fixtures, for every test of this folder."""

from pathlib import Path

import pytest

from .samples import unpack_store


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The models folder of the fixtures; to be read only."""
    return unpack_store(tmp_path_factory.mktemp("ollama"))
